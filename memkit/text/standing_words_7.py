"""By which words a sentence always mattered up to edition 7 of deciding, as it was then: a replay marks by them what a log of
that time marked. `memkit.text.standing_words` has those of today."""

from __future__ import annotations

import re

# The patterns are lower-case and read what `_fold` made: to look for them in any case costs three times as much.

HEALTH = re.compile(
    # the Latin script: stems that end anywhere in the word
    r"\b(?:allerg|al[eé]rg|anaphyl|epipen|intoleran[tcz]|intol[eé]ran|coeliac|celiac|celíac|cél[ií]aque|zöliakie|celiaki"
    r"|vegan|végan|vegetari|végétari|wegetaria|wegan|vejetaryen|pescatari|halal|kosher|diabet|diabèt|cukrzyc|şeker hasta"
    r"|asthma|asma\b|astma\b|epilep|pregnant|enceinte|schwanger|embarazad|grávida|incinta|zwanger|hamile"
    r"|wheelchair|rollstuhl|silla de ruedas|fauteuil roulant|cadeira de rodas|sedia a rotelle|rolstoel"
    r"|dyslexi|autis|adhd|adhs|insulin|insulina|pacemaker|blood pressure|blutdruck|blood thinner|metformin|warfarin"
    r"|(?:ha[sd]|have|my|got) (?:a )?(?:\w+ )?heart (?:condition|disease|failure)|hard of hearing|hearing aids?\b|schwerhörig|malentendant"
    r"|for (?:health|medical|religious) reasons|because of (?:(?:my|his|her|their) )?medication|gets? hives"
    r"|d[ịi] ứng|ăn chay|tiểu đường|alergi terhadap|keto diet|gluten[ -]?(?:free|frei|vrij)|lactose|laktose|laktoz|lattosio)"
    # at the end of longer words
    r"|(?<!hypo)allerg(?:ie|i\b|isch|iker)"
    # other scripts
    r"|аллерги|алергі|веган|вегетариан|вегетаріан|диабет|діабет|астм|беремен|вагітн|инвалидн"
    r"|αλλεργι|χορτοφάγ|βίγκαν|διαβήτ|אלרג|טבעונ|צמחונ|סוכרת|حساسية|نباتي|السكري|حلال|حامل"
    r"|एलर्जी|शाकाहारी|वीगन|मधुमेह|डायबिटीज|অ্যালার্জি|নিরামিষ|ডায়াবেটিস|แพ้|มังสวิรัติ|เบาหวาน"
    r"|过敏|過敏|吃素|素食|纯素|糖尿病|哮喘|怀孕|アレルギー|ベジタリアン|ヴィーガン|ビーガン|喘息|妊娠|알레르기|알러지|채식|비건|당뇨|천식"
)
DEAF = re.compile(
    r"\b(?:i'?m|i am|is|are|bin|soy|je suis|sono|ben)\b[^.!?]{0,20}\b(?:deaf|blind|taub|gehörlos|sordo|sorda|ciego|ciega|sourde?|aveugle|doof)\b"
)
CALLED = re.compile(
    r"\b(?:call me\b(?! (?:back|later|when|if|a|an|at|on|old|crazy))|(?:my|user's|\w+'s) (?:full |first )?name is|preferred name|goes by|go by|pronouns"
    r"|(?:wants?|prefers?|likes?|would like|wishes) to be (?:called|addressed)(?! (?:before|after|at|on|in|when|if|back|by|later|about|every))"
    r"|genannt (?:zu )?werden|que (?:lo|la|le|me) llamen|(?:ser llamad|essere chiamat|ser chamad)[oa]|qu'on (?:l|m)'appelle|être appelée?"
    r"|genoemd worden|(?:do niego|do niej|do mnie) mówi|mówi\w* do (?:niego|niej|mnie)|vill? (?:bli )?(?:kallas|kaldes|kalles)|diye (?:çağ|hitap)|denmesini|dipanggil|được gọi là"
    r"|nenn mich|nennen sie mich|ich heiße|ich heisse|mein name ist|llámame|llamame|me llamo|mi nombre es|appelle[- ]moi|je m'appelle"
    r"|me chama de|me chame de|meu nome é|chamo-me|chiamami|mi chiamo|il mio nome è|noem me|mijn naam is|ik heet|mów mi|nazywam się|mam na imię"
    r"|kalla mig|jag heter|kald mig|jeg hedder|jeg heter|bana .{1,20} de\b|benim adim|adim\b|panggil (?:aku|saya)|nama (?:saya|aku)|tên (?:tôi|mình|em|anh) là|gọi (?:tôi|mình) là)"
    r"|(?:его|е[её]|меня) (?:называли|звали)|(?:його|її|мене) (?:називали|звали)|被称[为作]|と呼ばれ(?:たい|るのを)|라고 불(?:리|러)|बुलाया जाए|(?:يُ?نادى|مناداته)"
    r"|меня зовут|зови меня|зовите меня|мене звати|με λένε|קוראים לי|اسمي|نادني|मेरा नाम|मुझे .{1,20} बुलाओ|আমার নাম|ชื่อ(?:ผม|ฉัน)|เรียก(?:ผม|ฉัน)ว่า"
    r"|我叫|叫我|我的名字|と呼んで|私の名前は|제 이름은|내 이름은|이라고 불러|라고 불러"
)
ANSWERED = re.compile(
    r"\b(?:(?:always|never|don'?t|do not|stop|from now on|in future|please)\b[^.!?]{0,30}\b(?:answer|reply|respond|write|speak|talk|call|use|using|format|explain)(?!ing to)\b[^.!?]{0,40}"
    r"\b(?:in |with |emoji|metric|imperial|bullet|short|brief|simple|formal|casual|markdown|me\b)"
    r"|(?:wants?|prefers?|likes|would like)\b[^.!?]{0,20}\b(?:answers|replies|responses)\b(?! (?:to (?!be\b)|from\b|by\b|about\b|on\b))|wants? the assistant to|keep (?:your |the )?(?:answers|replies|it) (?:short|brief|simple)"
    r"|(?:answer|reply|respond|write|speak)(?: to)?(?: me)? (?:only |always )?in (?:english|french|german|spanish|italian|dutch|polish|portuguese|\w+ish|\w+ese|\w+an\b)"
    r"|(?:wants?|prefers?|uses?|would like)\b[^.!?]{0,25}\b(?:celsius|fahrenheit|metric|imperial|24-hour)\b"
    r"|use (?:metric|imperial|celsius|fahrenheit|bullet|they/them|she/her|he/him)"
    r"|\bin (?:kilomet(?:er|re)s|km|miles|kilos?|kg|pounds|celsius|fahrenheit|metric|imperial)\b[^.!?]{0,20}\b(?:please|pls|always|only)\b"
    r"|(?:(?<!die )(?<!ine )antworte?|antworten sie|schreib|sprich)\b[^.!?]{0,30}\b(?:auf|kurz|immer|nur|bitte)|(?:responde|contesta|háblame|escríbeme)\b[^.!?]{0,30}\b(?:en|siempre|corto|breve)"
    r"|(?:réponds|répondez|écris|parle)[- ]?\w*\b[^.!?]{0,30}\b(?:en|toujours|court)|(?:responda|responde|fale)\b[^.!?]{0,30}\b(?:em|sempre|curt)"
    r"|rispondi\w*\b[^.!?]{0,30}\b(?:in|sempre|breve)|antwoord\b[^.!?]{0,30}\b(?:in|altijd|kort)|odpowiadaj\b|svara\b[^.!?]{0,20}\b(?:på|alltid)|cevap ver\w*\b|jawab\w*\b[^.!?]{0,20}\b(?:dalam|selalu|singkat)|trả lời\b[^.!?]{0,20}\b(?:bằng|ngắn|luôn)"
    r"|(?:bevorzug|möchte|wünsch|will\b|hätte gern)[^.!?]{0,20}\bantworten\b|(?:prefier[eo]|quier[eo])\b[^.!?]{0,20}\brespuestas\b"
    r"|(?:préfère|veu[tx]|souhaite|aimerait?)\b[^.!?]{0,20}\bréponses\b|(?:preferi\w+|vuole|voglio|vorrei)\b[^.!?]{0,20}\brisposte\b"
    r"|(?:prefer[eo]|prefiro|quero?)\b[^.!?]{0,20}\brespostas\b|(?:wil|liever|prefereert|graag)\b[^.!?]{0,20}\bantwoorden\b"
    r"|(?:woli|wol[ęe]|chc[eę]|preferuj[eę])\b[^.!?]{0,20}\bodpowiedzi\b|(?:cevap|yanit)\w* (?:ist|tercih)\w+|(?:thích|muốn)\b[^.!?]{0,20}\bcâu trả lời\b)"
    r"|(?:предпоч|хоч)[^.!?]{0,25}ответ(?:ы|ов|ам)|(?:надає перевагу|хоч)[^.!?]{0,25}відповід(?:і|ей|ям)|(?:希望|喜欢|喜歡|偏好|想要).{0,8}(?:回答|回复|回覆|答复)"
    r"|(?:回答|返事|返答|返信)(?:を好|がいい|を希望|を望)|(?:답변|대답|답장)을? ?(?:선호|원)|(?:जवाब|उत्तर)\S* .{0,12}(?:चाह|पसंद)|(?:[أي]فضل|[أي]ريد).{0,20}(?:ال)?(?:ردود|إجابات)"
    r"|отвечай|відповідай|απάντα|ענה לי|أجب|رد علي|जवाब (?:दो|दें|देना)|উত্তর (?:দাও|দিন|দেবে)|ตอบ(?:เป็น|สั้น)|用.{1,6}回答|请.{0,6}回答|回答.{0,6}(?:短|简)|で(?:答え|返事|返信)て|로 (?:대답|답)"
)
