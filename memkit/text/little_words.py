"""Words that are no names wherever they stand: the grammar of some twenty languages, days and months; and those that
say what comes after them: a place, an own ("my"), a title. Folded as `memkit.text.words.fold` does it."""

from __future__ import annotations

from memkit.text.words import MONTHS, STOP_WORDS, fold

_LITTLE = """
    mr ms mrs im ive ill id u ur r n w idk tbh btw ngl pls plz thx thanks thank please sorry yes yeah yep nope
    sure great good nice perfect sounds hey hi hello hiya dear god jesus christ xmas christmas easter new
    internet lol haha happy jan feb mar apr jun jul aug sep sept oct nov dec mondays tuesdays wednesdays
    thursdays fridays saturdays sundays assistant user system tool bot monday tuesday wednesday thursday friday
    saturday sunday mon tue tues wed thu thurs fri sat sun today tomorrow yesterday tonight morning evening
    night week weekend year said says say told tells asked asks got gets get goes going went gone came come
    comes made make makes took take takes has had gave gives give wants want likes like loves love thinks
    thought who whos whose one two three first second last next next-door back home never ever always now later
    soon still already since until before after while during who's that's it's don't i'm i've i'll i'd ok am pm
    live lives lived work works worked call calls called moved moves move started start left lost found anyway
    though because cause cuz coz without within between across around down off away along there there's where's
    what's let's broke broken died dies won quit needs knows knew cheated dumped bought sold sends sent more
    most much many less least few enough another every everyone everybody everything someone somebody something
    anything anyone nobody nothing stuff things thing way time times day days month months hour hours minute
    minutes ich du er sie es wir ihr mich dich ihn uns euch ihm ihnen sein seine der die das den dem des ein
    eine einen einem einer und oder aber weil dass ist sind war waren hat habe haben hatte wird werden kann
    kannst muss will soll nicht kein keine mit ohne von vom zu zum zur bei beim nach aus auf in an für über
    unter vor seit bis um als wie wo was wer wenn dann noch schon auch nur sehr mal so ja nein doch bitte danke
    hallo moin heute morgen gestern montag dienstag mittwoch donnerstag freitag samstag sonntag meinte meint
    sagt sagte kommt kam geht ging zieht januar februar märz mai juni juli oktober dezember quiere quería yo tú
    tu él ella nosotros ellos ellas me te se nos lo la los las le les un una unos unas el y e o pero porque que
    qué quien quién como cómo cuando cuándo donde dónde son era fue ha he han había está estoy están tiene tengo
    va voy con sin de del al a en por para pa desde hasta sobre entre no ni sí si ya más muy también tambien
    solo hoy ayer mañana lunes martes miércoles jueves viernes sábado domingo dice dijo q xq pues pos eso esto
    ese esta este hola gracias enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre
    diciembre je il elle on nous vous ils elles moi toi lui leur ma mes ton ta tes sa ses notre votre vos au aux
    et ou mais donc car qui quoi dont où quand comme est sont était ai as ont avait vais fait dit avec sans dans
    par pour sur sous chez vers ne pas plus très trop aussi bien tout tous toute ça ca ce cet cette ces oui non
    merci salut slt bonjour lundi mardi mercredi jeudi vendredi samedi dimanche janvier février mars avril juin
    juillet août septembre octobre novembre décembre io noi voi loro gli uno della dei che chi cui è sono ero ho
    hai abbiamo senza di da nel nella per tra fra più anche quando dove oggi ieri domani lunedì martedì
    mercoledì giovedì venerdì sabato domenica ciao grazie ecco quer quis eu você vc nós eles elas meu minha seu
    sua os uma dos na nas ao à pelo pela mas quem onde é são foi tá estou tem tenho vai vou com sem do em pra
    pro até não nao sim já muito também tb só hoje ontem amanhã segunda terça quarta quinta sexta oi olá
    obrigado janeiro fevereiro março maio junho julho setembro outubro novembro dezembro ik jij hij zij ze wij
    we jullie mij mn m'n zn het een of maar dat deze is zijn heb heeft ben bent wordt kan moet wil zal niet geen
    met zonder van voor naar uit op aan bij over onder tot hoe waar wat wanneer dan nog ook zeer nee hoi dag
    maandag dinsdag woensdag donderdag vrijdag zaterdag zondag zegt zei komt gaat januari februari maart mei
    augustus roept jag hon vi det ett och eller men att är var har hade blir blev ska vill inte ingen med utan
    av från till på i om för över under efter innan som vad vem när hur där här nu då också bara så nej hej tack
    måndag tisdag onsdag torsdag fredag lördag söndag säger kommer går hjälper jeg og ikke til jest są był była
    było mam masz nie tak z od za po przed przez dla ale lub czy że żeby jak gdzie kiedy kto co który która już
    jeszcze też tylko się mnie mi ci go ją jej jego mój moja dzisiaj jutro wczoraj poniedziałek wtorek środa
    czwartek piątek sobota niedziela mówi я ты он она оно мы вы они меня мне тебя тебе его её ему ей нас вас их
    мой моя моё мои твой твоя свой и а но или что чтобы как где когда кто это этот эта то тот так там тут уже
    ещё еще тоже также только не ни нет да в во на с со к ко у о об от до из за по под над при для без через
    если бы же ли есть был была было были будет сказал сказала говорит теперь сейчас сегодня завтра вчера привет
    спасибо який що як де коли хто це вже ще теж тільки ні та й і з від якщо є був була sen biz siz onlar bu şu
    ve ile ama çünkü için gibi kadar sonra önce mı mu mü ki kim nasıl nerede çok daha bir yok değil evet hayır
    bugün yarın dün dedi diyor aku saya kamu dia kami kita mereka yang atau tapi karena untuk dengan tanpa dari
    ke pada ini itu ada tidak nggak gak bukan sudah udah belum juga hanya sangat hari besok kemarin senin selasa
    rabu kamis jumat sabtu minggu là của và với cho không có đã đang sẽ rồi nhưng mà thì này kia đó ở từ đến về
    trong ngoài trên dưới cái chiếc cũng chỉ rất nữa nha nhé ạ ơi ừ giúp giùm hàng και ή αλλά γιατί ότι που πως
    όταν πού τι ποιος είναι ήταν έχω έχει με χωρίς από σε για στο στη στην στον του της των το τα ο η οι τη την
    τον μου σου δεν μη όχι ναι πολύ επίσης μόνο σήμερα αύριο χτες मैं तुम आप वह वो वे हम मेरा मेरी मेरे तेरा
    उसका उसकी उनका का की के को से में पर ने और या लेकिन कि जो क्या कब कहाँ कौन है हैं था थी थे हो गया गई गए रहा
    रही रहे नहीं ना मत हाँ जी भी ही तो अब अभी फिर बहुत सब एक यह ये इस उस कल आज सोमवार मंगलवार बुधवार शनिवार
    रविवार इतवार আমি তুমি সে আমরা আমার তোমার এর কে তে থেকে এবং বা কিন্তু যে কি কখন কোথায় আছে ছিল না হ্যাঁ ও ই
    তো এখন আজ কাল لحد انا انت انتي هو هي احنا هم في من الى على عن مع عند بتاع بتاعة بتاعي كان كانت كل بعد قبل لو
    اللي الي ان انه مش لا ما و او ثم هذا هذه ده دي دا يا يعني ايه اي لما حتى بس كمان برضه جدا اوي النهارده
    امبارح بكرة اليوم الجمعة السبت الاحد אני אתה את הוא היא אנחנו הם הן שלי שלך שלו שלה של על עם בלי אל מן כי אם
    או אבל גם רק לא כן זה זאת מה מי איפה מתי איך כבר עוד יש אין היה הייתה מאוד כל היום מחר אתמול ראשון שני שלישי
    רביעי חמישי שישי שבת עוזבת חדשה חדש
"""
_GERMAN = """
    ich nicht und ist mein meine meinen meinem meiner habe hat wir für auch aber eine einen zum zur mit dass wie sie bei
"""
_TITLES = """
    mr ms mrs miss dr prof professor sir madam tita tito don doña señor señora sr sra herr frau monsieur madame
    mme mevrouw meneer signor signora pan pani господин госпожа г-н г-жа bapak pak bu bang mbak mas thầy श्री
    श्रीमती uncle aunt aunty auntie coach saint st tante tio tia
"""
_OWN = """
    my our his her their your mi mis su sus mein meine meinem meiner meinen unser unsere mon ma mes mio mia meu
    minha mijn mn m'n min mitt mina mój moja moje мой моя моего моей мій μου मेरा मेरी मेरे benim שלי שלנו
"""
_ONE = "a an un une una ein eine einen einem einer een ett et uma um uno ένα ένας μια"
_WITH = """
    with w for from by of at and n mit von für bei und avec pour chez et de con para per y e com till med av
    från på och för met voor van bij en z ze od dla i с со от к у для и з від до і ile dan και με ve मैं مع
"""
_DOER = """
    i you he she it we they who u ya ich du er wir ihr man yo tú tu él ella ellos je il elle on nous vous ils
    elles io lui lei noi loro eu você vc ele ela eles ik jij hij ze wij jag han hon vi ni jeg ona oni ja ty я ты
    он она мы вы они ben sen biz aku saya dia kita can could will would shall should may might must not don't
    didn't doesn't dont didnt doesnt nicht no ne não nao non niet inte nie не i'm he's she's they're we're
    you're it's i've i'd
"""
_NOT_BEFORE_NAMES = """
    the this that these those some any no every each another other own more most very too so am is are was were be been
    being have has had get got feel new good der die das den dem dieser diese dieses kein keine el los las este esta ese
    esa le les ce cette il lo gli questo questa het dit deze esse isso este det den detta ten ta tego этот эта это bu şu
    ini itu
"""
_HE_SHE = """
    he she him her his hers sie ihn ihm ella elle lei ele ela hij zij haar hem hon honom henne hans hennes ona
    jego jej jemu он она его её ее ему неё вона його її dia वो वह उसे उसका उसकी उन्हें উনি সে هو هي הוא היא אותו
    אותה αυτός αυτή
"""
HE_SHE_UNSPACED = ("他", "她", "彼女", "彼は", "彼が", "彼の", "걔", "그녀", "เขา", "เธอ")
_VIETNAMESE = "chị anh em bé bạn cô chú bác dì cậu ông bà chồng vợ"
_LEADS_TO_PLACE = """
    in near into at nach en em no na i naar w we в ở στη στην στο στον ke
"""

LITTLE = frozenset(_LITTLE.split()) | STOP_WORDS | frozenset(month.lower() for month in MONTHS)
"""As written, in lower case: "Biên" is no "bien"."""
TITLES, OWN, LEADS_TO_PLACE, ONE, WITH, DOER, NOT_BEFORE_NAMES, HE_SHE = (
    frozenset(map(fold, table.split()))
    for table in (_TITLES, _OWN, _LEADS_TO_PLACE, _ONE, _WITH, _DOER, _NOT_BEFORE_NAMES, _HE_SHE)
)
VIETNAMESE = frozenset(_VIETNAMESE.split())
GERMAN = frozenset(_GERMAN.split())
"""Two of them, and it is German, which writes every noun with a capital."""
AND = frozenset(["and", "und", "y", "et", "e", "och", "en", "i", "и", "ve", "n"])
OF_MINE, I_AM = frozenset(["שלי", "שלנו"]), frozenset(["am", "i'm", "im"])
FORMAL = frozenset(["dr", "mr", "mrs", "ms"])
