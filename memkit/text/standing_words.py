"""By which words a sentence always matters: of health, of what to call somebody, of how to answer him.

A list for each script, so that a text is searched for words of its own scripts alone. All is lower-case, as `standing`
folds what it reads. Where a word also tells of something that happened ("me llamó", "叫我回家", "英語で話していた"), only the
form that asks for it is here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScriptWords:
    letters: re.Pattern[str]
    """A text without any of these letters is in another script."""
    health: re.Pattern[str]
    called: re.Pattern[str]
    answered: re.Pattern[str]


_START = (
    r"(?:^|[.,;:!?()\n–—-])\W*(?:(?:please|pls|bitte|ab jetzt|por favor|a partir de (?:ahora|agora)|per favore|d'ora in poi|s'il te plaît|stp|svp"
    r"|désormais|et|y|e|en|och|og|und|graag|voortaan|proszę|lütfen|tolong|snälla|ja) ){0,2}"
)
"""Where a request may begin: elsewhere the same form tells of somebody ("mon prof parle en anglais")."""

# ---- the Latin script ------------------------------------------------------------------------------------------------

_LATIN_HEALTH = (
    # stems that end anywhere in the word
    r"\b(?:allerg|al[eé]rg|alerji|anaphyl|anafil|epipen|intoleran[tcz]|intol[eé]ran|coeliac|celiac|celíac|cél[ií]aque|zöliakie|celiaki"
    r"|vegan|végan|vegetari|végétari|wegetaria|wegan|vejetaryen|pescatari|halal|kosher|diabet|diabèt|cukrzyc|şeker hasta|suikerziekte"
    r"|asthma|asma\b|astma\b|astim\b|astmati|asthmati|asm[aá]tic|hen (?:suyễn|phế quản)"
    r"|epilep|épilep|embarazad|grávida\b|gravid\b|raskaana|enceinte|schwanger|incinta|zwanger|hamile|hamil\b|pregnant|w ciąży|mang thai|có bầu|těhotn"
    r"|însărcinat|várandós"
    r"|wheelchair|rollstuhl|silla de ruedas|fauteuil roulant|cadeira de rodas|sedia a rotelle|rolstoel|rullstol|rullestol|kørestol|pyörätuoli"
    r"|tekerlekli sandalye|wóz(?:ek|ku) inwalidz|xe lăn|kursi roda"
    r"|dyslexi|dyslexie|dislexi|autis|adhd|adhs|tdah|insulin|insulina|insuline|pacemaker|herzschrittmacher|marcapaso|blood pressure|blutdruck|tensión arterial"
    r"|blood thinner|blutverdünner|anti?coagul|bloedverdunner|metformin|warfarin|marcumar|sintrom"
    r"|(?:ha[sd]|have|my|got) (?:a )?(?:\w+ )?heart (?:condition|disease|failure)|herz(?:krank|fehler|schwäche|insuffizienz)|cardiopat"
    r"|(?:problemas?|insuficiencia|enfermedad|insuffisance|maladie|doença) (?:card[ií]ac|cardiaque|del corazón|de(?:l)? cœur)|hartfalen|hartpatiënt"
    r"|hard of hearing|hearing aids?\b|schwerhörig|malentendant|slechthorend|høreapparat|hörapparat"
    r"|for (?:health|medical|religious) reasons|because of (?:(?:my|his|her|their) )?medication|gets? hives"
    r"|d[ịi] ứng|ăn chay|tiểu đường|alergi terhadap|keto diet|gluten[ -]?(?:free|frei|vrij)|sin gluten|sans gluten|senza glutine|sem gl[uú]ten|glutensiz|bezgluten"
    r"|lactose|laktose|laktoz|lattosio|lactosa|laktos\b)"
    # at the end of longer words
    r"|(?<!hypo)allerg(?:ie|i\b|isch|iker|iás)"
)
_DEAF = r"|\b(?:i'?m|i am|is|are|bin|soy|je suis|sono|ben)\b[^.!?]{0,20}\b(?:deaf|blind|taub|gehörlos|sordo|sorda|ciego|ciega|sourde?|aveugle|doof)\b"
_AT_A_TIME = (
    r"(?: (?:mañana|luego|después|despues|más|mas|cuando|cualquier|ahora|hoy|ya|esta|este|el|la|al|a|por|si|en|para|de|desde|con|tarde|temprano"
    r"|demain|ce|cet|cette|plus|quand|à|au|sur|pour|dès|après|avant|vers|tard|tôt|toujours|ou|et|un|une|domani|dopo|quando|più|se|per|oggi|stasera"
    r"|ora|adesso|sul|alle|il|di|in|nel|tra|fra|amanhã|depois|mais|no|na|às|hoje|agora|qualquer|lundi|lunes|lunedì|le|les|el|um|uma|y|o|e)\b)"
)
"""What follows where to call is to ring up."""
_LATIN_CALLED = (
    r"\b(?:call me\b(?! (?:back|later|when|if|a|an|at|on|old|crazy))|(?:my|user's|\w+'s) (?:full |first )?name is|preferred name|goes by|go by|pronouns"
    r"|(?:wants?|prefers?|likes?|would like|wishes) to be (?:called|addressed)(?! (?:before|after|at|on|in|when|if|back|by|later|about|every))"
    # as models word it
    r"|genannt (?:zu )?werden|que (?:lo|la|le|me) llamen|(?:ser llamad|essere chiamat|ser chamad)[oa]|qu'on (?:l|m)'appelle|être appelée?"
    r"|genoemd worden|(?:do niego|do niej|do mnie) mówi|mówi\w* do (?:niego|niej|mnie)|vill? (?:bli )?(?:kallas|kaldes|kalles)|diye (?:çağ|hitap)"
    r"|denmesini|dipanggil|được gọi là"
    r"|nenn mich|nennen sie mich|nennt mich|mich (?:\S+ ){1,3}nennen|ich heiße|ich heisse|mein name ist"
    r"|llámame|llamame|llámeme|llamadme|me llamo|mi nombre es"
    r"|(?:puedes|pod[eé]s|puede|pueden) llamarme(?=(?: \S+){1,2}\W*$)(?!AT)|me (?:puedes|pod[eé]s|puede|pueden) (?:llamar|decir)(?=(?: \S+){1,2}\W*$)(?!AT)"
    r"|appelle[- ]moi|appelez[- ]moi|je m'appelle|(?:peux|pouvez|peut) m'appeler(?=(?: \S+){1,2}\W*$)(?!AT)"
    r"|me chama de|me chame de|me chamar de|meu nome é|chamo-me|(?:trata|trate|tratem|tratar)-me por"
    r"|chiamami|chiamatemi|mi chiami pure|mi chiamo|il mio nome è|(?:puoi|potete|può) chiamarmi(?=(?: \S+){1,2}\W*$)(?!AT)"
    r"|noem m(?:e|ij)|m(?:e|ij) (?:\S+ ){1,3}noemen|mijn naam is|ik heet"
    r"|mów mi (?!prawdę|to\b|o\b|co\b|że\b)|mi mówić (?!prawd|o\b|co\b|że\b|że\b|takich)|nazywam się|mam na imię|zwracaj się do mnie|mów do mnie"
    r"|(?:kalla|kall|kald|kalde|kalle) (?:mig|meg)|jag heter|jeg hedder|jeg heter|kutsu(?:a|kaa|t)? minua|sano minua|minun nimeni|mun nimi|nimeni on"
    r"|bana .{1,20} (?:de\b|deyin|diyebilirsin|diye seslen)|benim adim|adim\b|panggil (?:aja |saja )?(?:aku|saya)|nama (?:saya|aku)"
    r"|tên (?:tôi|mình|em|anh) là|gọi (?:tôi|mình) là"
    r"|říkej(?:te)? mi\b|jmenuj[iu] se|spune-mi (?!ce|cum|că|dacă|de)|mă numesc|mă cheamă|numele meu|szólíts|hívj(?:ál|on)? .{1,20}n[ae]k\b|a nevem)"
).replace("AT", _AT_A_TIME)
_LATIN_ANSWERED = (
    r"\b(?:(?:always|never|don'?t|do not|stop|from now on|in future|please)\b[^.!?]{0,30}\b(?:answer|reply|respond|write|speak|talk|call|use|using|format|explain)(?!ing to)\b[^.!?]{0,40}"
    r"\b(?:in |with |emoji|metric|imperial|bullet|short|brief|simple|formal|casual|markdown|me\b)"
    r"|(?:wants?|prefers?|likes|would like)\b[^.!?]{0,20}\b(?:answers|replies|responses)\b(?! (?:to (?!be\b)|from\b|by\b|about\b|on\b))|wants? the assistant to"
    r"|keep (?:your |the )?(?:answers|replies|it) (?:short|brief|simple)"
    r"|(?:answer|reply|respond|write|speak)(?: to)?(?: me)? (?:only |always )?in (?:english|french|german|spanish|italian|dutch|polish|portuguese|\w+ish|\w+ese|\w+an\b)"
    r"|(?:wants?|prefers?|uses?|would like)\b[^.!?]{0,25}\b(?:celsius|fahrenheit|metric|imperial|24-hour)\b"
    r"|use (?:metric|imperial|celsius|fahrenheit|bullet|they/them|she/her|he/him)"
    r"|in (?:kilomet(?:er|re)s|km|miles|kilos?|kg|pounds|celsius|fahrenheit|metric|imperial)\b[^.!?]{0,20}\b(?:please|pls|always|only)\b"
    r"|(?:(?<!die )(?<!ine )antworte?|antworten sie|schreib|sprich)\b[^.!?]{0,30}\b(?:auf|kurz|immer|nur|bitte)"
    r"|(?:sprich|sprechen sie|rede|red|reden sie|schreib|schreiben sie) (?:\w+ ){0,3}(?:mit mir|mir)\b|(?:duz|duze|duzen sie|siez|sieze) mich\b"
    r"|(?:responde|contesta|háblame|escríbeme)\b[^.!?]{0,30}\b(?:en|siempre|corto|breve)"
    r"|(?:resp[oó]nde|cont[eé]sta|h[aá]bla|escr[ií]be|respond[aá]|habl[aá])(?:me|nos)\b[^.!?]{0,30}\b(?:en|siempre|corto|breve|claro|sin)\b"
    r"|tut[eé](?:ame|eme|arme)\b|(?:tr[aá]ta|tr[aá]te|h[aá]bla|h[aá]ble)me de (?:tú|usted|vos)\b"
    r"|(?:responda|responde|fale)\b[^.!?]{0,30}\b(?:em|sempre|curt)|(?:fala|fale|escreve|escreva|conversa|converse) comigo\b[^.!?]{0,20}\b(?:em|sempre)\b"
    r"|(?:tutoie|tutoyez|vouvoie|vouvoyez)-moi|tutoyons-nous|(?:peux|peut|pouvez|dois|préfère|merci de) (?:me |se |nous |qu'on se )?(?:tutoyer|vouvoyer|tutoie|vouvoie)"
    r"|dammi del (?:tu|lei)|diamoci del tu|datemi del|rispondi\w*\b[^.!?]{0,30}\b(?:in|sempre|breve)|(?:parlami|scrivimi)\b[^.!?]{0,20}\b(?:in|sempre)\b"
    r"|tutoyeer|zeg maar (?:je|jij)\b"
    r"|odpowiadaj\b|(?:pisz|mów|odpisuj) (?:do mnie|ze mną)\b|svara\b[^.!?]{0,20}\b(?:på|alltid)"
    r"|cevap ver(?:in|iniz|ir misin|sen)?\b(?! ?(?:di|me))|(?:benimle|bizimle) (?:\S+ ){0,2}(?:konuş|yaz)(?:un|in|sana)?\b|jawab\w*\b[^.!?]{0,20}\b(?:dalam|selalu|singkat)"
    r"|(?:pakai|pake) bahasa \w+ (?:aja|saja|ya|dong)|trả lời\b[^.!?]{0,20}\b(?:bằng|ngắn|luôn)|nói (?:bằng )?tiếng \S+ với (?:tôi|mình|em)"
    # as models word it
    r"|(?:bevorzug|möchte|wünsch|will\b|hätte gern)[^.!?]{0,20}\bantworten\b|(?:prefier[eo]|quier[eo])\b[^.!?]{0,20}\brespuestas\b"
    r"|(?:préfère|veu[tx]|souhaite|aimerait?)\b[^.!?]{0,20}\bréponses\b|(?:preferi\w+|vuole|voglio|vorrei)\b[^.!?]{0,20}\brisposte\b"
    r"|(?:prefer[eo]|prefiro|quero?)\b[^.!?]{0,20}\brespostas\b|(?:wil|liever|prefereert|graag)\b[^.!?]{0,20}\bantwoorden\b"
    r"|(?:woli|wol[ęe]|chc[eę]|preferuj[eę])\b[^.!?]{0,20}\bodpowiedzi\b|(?:cevap|yanit)\w* (?:ist|tercih)\w+|(?:thích|muốn)\b[^.!?]{0,20}\bcâu trả lời\b"
    r"|odpovídej(?:te)?\b|tykej(?:te)? mi|válaszolj(?:on)?\b|tegezz(?:en)?\b|răspunde-mi|vorbește-mi|vorbește cu mine)"
    rf"|{_START}(?:(?:réponds|répondez|écris|parle|parlez)[- ]?\w*\b[^.!?]{{0,30}}\b(?:en|toujours|court)"
    r"|(?:antwoord|praat|spreek|schrijf)\b[^.!?]{0,25}\b(?:in|altijd|kort|nederlands|engels|frans|duits|met me|met mij)\b"
    r"|(?:skriv|prata|tala|snakk|snak|svar)\b[^.!?]{0,20}\b(?:på \w+sk[a]?|alltid|altid|kort)\b"
    r"|(?:vastaa|puhu|kirjoita)\b[^.!?]{0,25}\b(?:aina|suomeksi|englanniksi|ruotsiksi|lyhyesti)\b)"
)

# ---- other scripts ---------------------------------------------------------------------------------------------------

_CYRILLIC = (
    r"аллерги|алергі|алерги|веган|вегетариан|вегетаріан|диабет|діабет|астм|эпилепс|епілепс|беремен|вагітн|инвалидн|інвалідн|инсулин|інсулін"
    r"|порок сердца|антикоагулянт|лактоз|целиаки|целіакі|(?:без|не перенош\w+) глютен",
    r"(?:его|е[её]|меня) (?:называли|звали)|(?:його|її|мене) (?:називали|звали)|меня зовут|мене звати"
    r"|(?:зови|зовите|называй|называйте) меня|меня называй|(?:меня (?:называть|звать)|(?:называть|звать) меня) \S+\W*$"
    r"|(?:клич|кличте|називай|називайте|зви|звіть) мене|(?:мене (?:називати|кликати|звати)|(?:називати|кликати|звати) мене) \S+\W*$"
    r"|(?:обращайся|обращайтесь) ко мне|(?:звертайся|звертайтеся) до мене|моё имя|мое имя|моє ім['’]я",
    r"(?:предпоч|хоч)[^.!?]{0,25}ответ(?:ы|ов|ам)|(?:надає перевагу|хоч)[^.!?]{0,25}відповід(?:і|ей|ям)|отвечай|відповідай"
    r"|(?:пиши|пишите|говори|говорите|общайся|общайтесь|разговаривай) (?:со мной|мне)\b[^.!?]{0,25}(?:\bна |по-|только|всегда|коротко|кратко|прост)"
    r"|(?:пиши|пишіть|говори|говоріть|розмовляй|спілкуйся) (?:зі мною|мені)\b[^.!?]{0,25}(?:\bна |по-|лише|\w+ською|завжди|коротко|прост)"
    r"|(?:ко мне|со мной|давай|давайте) на (?:ты|вы)\b|до мене на (?:ти|ви)\b",
)
_GREEK = (
    r"αλλεργι|χορτοφάγ|βίγκαν|διαβήτ|έγκυος|άσθμα|επιληψί|αναπηρικό|ινσουλίν|κοιλιοκάκη|γλουτένη|λακτόζη",
    r"με λένε|(?:να |λέγε |φώναζέ )με (?:λες|λέτε|φωνάζεις|φωνάζετε)|λέγε με \S|φώναζέ με|το όνομά μου",
    r"απάντα|(?:μίλα|μίλησέ|μιλάτε|γράφε|γράψε) μου\b.{0,15}(?:ελληνικά|αγγλικά|απλά|σύντομα|πάντα)|στον (?:ενικό|πληθυντικό)",
)
_HEBREW = (
    r"אלרג|טבעונ|צמחונ|סוכרת|בהריון|בהיריון|אסטמה|אפילפסי|כיסא גלגלים|אינסולין|צליאק|לקטוז",
    r"קוראים לי|(?:תקרא|תקראי|תקראו|קרא|קראי|לקרוא) לי(?! (?:את|הביתה|מ|סיפור))|השם שלי",
    r"(?:^|[.,;!?\n]\s*|תמיד |רק )(?:ענה|עני|תענה|תעני) לי|(?:דבר|דברי|תדבר|תדברי|כתוב|כתבי|תכתוב|תכתבי|תענה|תעני) (?:איתי|אליי|אלי|לי) .{0,15}"
    r"(?:ב(?:עברית|אנגלית|ערבית|רוסית|צרפתית|ספרדית)|בקצרה|תמיד)",
)
_ARABIC = (
    r"حساسية|حساسیت|الرجی|نباتي|السكري|حلال|حامل|الربو|الصرع|كرسي متحرك|[أا]نسولين|إنسولين|مرض القلب|بارداری|دیابت",
    r"اسمي|اسمم|نادني|نادوني|ناديني|(?:يُ?نادى|مناداته|مناداتي)|سمّ?ني \S|(?:صدام|صدایم) کن",
    r"[أي]فضل.{0,20}(?:ال)?(?:ردود|إجابات)|[أي]ريد.{0,20}(?:ال)?(?:ردود|إجابات)|أجب|رد علي"
    r"|(?:تكلم|تكلمي|تحدث|تحدثي|اكتب|اكتبي|كلمني|كلميني|حدثني|جاوبني|جاوبيني|رد|ردي) ?(?:معي|لي|علي)? .{0,8}"
    r"(?:بال(?:عربي|[إا]نجليزي|فرنسي|فصحى|لهجة|مصري)|باختصار)|(?:به )?فارسی (?:جواب|بنویس|صحبت کن)",
)
_INDIC = (
    r"एलर्जी|शाकाहारी|वीगन|मधुमेह|डायबिटीज|गर्भवती|अस्थमा|मिर्गी|व्हीलचेयर|इंसुलिन"
    r"|অ্যালার্জি|নিরামিষ|ডায়াবেটিস|গর্ভবতী|হাঁপানি|হুইলচেয়ার|ইনসুলিন",
    r"मेरा नाम|बुलाया जाए|मुझे .{1,20} बुला(?:ओ|इए|इये|एं|एँ|ना| सकते| सकती| लो)|আমার নাম|আমাকে .{1,20}ডাক(?:ো|ুন|বেন|বে|তে পার)",
    r"(?:जवाब|उत्तर)\S* .{0,12}(?:चाह|पसंद)|(?:जवाब|उत्तर) (?:दो|दें|देना|दीजिए)|मुझसे .{0,15}बात (?:करो|करें|कीजिए|करना)"
    r"|উত্তর (?:দাও|দিন|দেবে|দিও)|আমার সাথে .{0,15}কথা বল(?:ো|ুন|বে)",
)
_THAI = (
    r"แพ้|มังสวิรัติ|เบาหวาน|ตั้งครรภ์|หอบหืด|ลมชัก|วีลแชร์|อินซูลิน",
    r"ชื่อ(?:ผม|ฉัน)|เรียก(?:ผม|ฉัน|เรา|หนู|ดิฉัน)ว่า",
    r"ตอบ(?:เป็น|สั้น)|(?:พูด|คุย)ภาษา\S{2,8}กับ(?:ผม|ฉัน|เรา)",
)
_CHINESE_TONGUE = r"(?:中文|英文|英语|英語|国语|國語|普通话|普通話|粤语|粵語|广东话|廣東話|日语|日文|日語|韩语|韓語|法语|法語|德语|德語|西班牙语|简体|簡體|繁体|繁體|敬语)"
_HAN = (
    r"过敏|過敏|吃素|素食|纯素|純素|糖尿病|哮喘|气喘|氣喘|怀孕|懷孕|癫痫|癲癇|轮椅|輪椅|胰岛素|胰島素|心脏病|心臟病|乳糖|麸质|麩質|乳糜泻"
    r"|アレルギー|ベジタリアン|ヴィーガン|ビーガン|喘息|妊娠|てんかん|車椅子|車いす|インスリン|心臓病|グルテンフリー|セリアック",
    r"我叫(?![他她它你了过過车車醒住着著人大外])|我的名字|被称[为作]|[称稱]呼我|(?:可以|请|請|就|都|大家|以后|以後)叫我(?![去来來回起做帮幫不别別们們吃买買听聽])"
    r"|(?:^|[，。！!,.\n]\s*)叫我.{1,8}(?:就行|就好|吧|即可|就可以|好了)"
    r"|(?:と|って)(?:呼んで|お呼び)|と呼ばれ(?:たい|るのを)|私の名前は|(?:僕|俺)の名前は",
    r"(?:希望|喜欢|喜歡|偏好|想要).{0,8}(?:回答|回复|回覆|答复)|用.{1,6}(?:回答|回复|回覆)|请.{0,6}回答|請.{0,6}回[答覆]|回答.{0,6}(?:短|简|簡)"
    rf"|(?:^|[，。！!,.\n]\s*|请|請|以后|以後|都|就|直接)(?:跟|和)我(?:说|說|讲|講|用){_CHINESE_TONGUE}"
    r"|(?:回答|返事|返答|返信)(?:を好|がいい|を希望|を望)|で(?:答え|返事|返信)て|(?:語|敬語|タメ口|ため口|弁|ます調?)で.{0,8}(?:答え|返事し|返信し|話し|書い|お願いし|説明し)て"
    r"(?!い|る|た|き|も|く?れた|くれない|くれて|から|しま|みた|な)|(?:敬語|絵文字|タメ口).{0,3}(?:使わないで|やめて|なしで|はいらない|はいりません)"
    r"|(?:短く|簡潔に|手短に|簡単に).{0,6}(?:答え|返事し|返信し|説明し)て(?!い|る|た|く?れた|くれない)",
)
_HANGUL = (
    r"알레르기|알러지|채식|비건|당뇨|천식|임신|뇌전증|휠체어|인슐린|심장병|글루텐|유당불내",
    r"제 이름은|내 이름은|라고 불(?:리|러)",
    r"(?:답변|대답|답장)을? ?(?:선호|원)|로 (?:대답|답)|(?:어|말)로 .{0,10}?(?:대답|답변|답장|말|얘기|이야기|설명)?\s?(?:해|써)\s?(?:줘|주세요|주실|줄래|주면|달라)"
    r"|(?:반말|존댓말)(?:로)?\s?해\s?(?:줘|주세요|도)|(?:짧게|간단히|간단하게) (?:대답|답|설명)\S*\s?(?:해|줘|주세요)",
)


def _words(letters: str, health: str, called: str, answered: str) -> ScriptWords:
    return ScriptWords(re.compile(f"[{letters}]"), re.compile(health), re.compile(called), re.compile(answered))


_SCRIPTS = (
    _words("a-z", _LATIN_HEALTH + _DEAF, _LATIN_CALLED, _LATIN_ANSWERED),
    _words("\u0400-\u04ff", *_CYRILLIC),
    _words("\u0370-\u03ff\u1f00-\u1fff", *_GREEK),
    _words("\u0590-\u05ff", *_HEBREW),
    _words("\u0600-\u06ff", *_ARABIC),
    _words("\u0900-\u09ff", *_INDIC),
    _words("\u0e00-\u0e7f", *_THAI),
    _words("\u3040-\u30ff\u4e00-\u9fff", *_HAN),
    _words("\uac00-\ud7af", *_HANGUL),
)


def words_for(folded: str) -> Iterator[ScriptWords]:
    """Those of the scripts that a text in lower case is written in."""
    return (words for words in _SCRIPTS if words.letters.search(folded))
