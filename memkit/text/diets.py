"""What people say that they do not eat or drink, in the languages that `memkit.text.standing` knows.

Two things are said in one sentence: that it is not eaten, and a food of the same language ("ich esse kein Fleisch").
Nothing is meant for good where it is said of today, and foods are those that people leave out for good: for their
health, their faith or the animals.
"""

from __future__ import annotations

import re

_SAID = {
    "en": (
        r"\b(?:can(?:'?t|not| not)|do(?:es)?(?:n'?t| not)|never|must(?:n'?t| not)|may not|should(?:n'?t| not)|not allowed to|unable to"
        r"|no longer|refuses? to) (?:\w+ )?(?:eat|drink|consume|digest|tolerate|stomach)\b"
        r"|\bcan(?:'?t|not) have (?:any )?(?=gluten|dairy|lactose|nuts|peanuts|shellfish|seafood|alcohol|caffeine|soy|eggs|milk|pork)"
        r"|\bavoid(?:s|ing)? (?:all |any )?(?=gluten|dairy|lactose|nuts|peanuts|shellfish|alcohol|caffeine|soy|eggs|pork|meat|grapefruit)"
        r"|\breact(?:s|ed)? (?:badly|allergically) to\b",
        r"\b(?:meat|pork|beef|bacon|ham\b|chicken|poultry|fish\b|seafood|shellfish|shrimp|prawn|crab|lobster|mussel|oyster|nuts?\b"
        r"|peanut|almond|cashew|walnut|hazelnut|sesame|soy|dairy|milk|cheese|eggs?\b|gluten|wheat|lactose|alcohol|wine\b|beer\b"
        r"|caffeine|gelatine?|honey|grapefruit|penicillin|amoxicillin|antibiotic|aspirin|ibuprofen|codeine|latex|bee sting)",
    ),
    "de": (
        r"\b(?:esse?|isst|trinke?|trinkt|vertr[aä]ge?n?|verträgt)\b[^.!?]{0,15}\b(?:kein\w*|nicht|nie)\b"
        r"|\b(?:darf|kann|soll)\b[^.!?]{0,15}\b(?:kein\w*|nicht|nie)\b[^.!?]{0,25}\b(?:essen|trinken)\b"
        r"|\b(?:kein\w*|nicht|nie)\b[^.!?]{0,25}\b(?:essen|trinken) (?:darf|kann|soll)\b|\breagier\w+\b[^.!?]{0,15}\b(?:schlecht|heftig) auf\b",
        r"fleisch|schwein|rindfl|fisch|meeresfrüchte|garnele|krabbe|schalentier|\w*n[uü]ss|mandel|milch|käse|\beier\b|\bei\b|weizen|soja"
        r"|sesam|alkohol|gluten|laktose|penicillin|penizillin",
    ),
    "es": (
        r"\bno (?:(?:puedo|puede|debo|debe) (?:comer|beber|tomar)|com[oe]|beb[oe]|toler[oa])\b|\bme sientan? mal\b",
        r"\b(?:carne|cerdo|pescado|marisco|camar[oó]n|gamba|frutos secos|nuez|nueces|cacahuete|man[ií]\b|leche|lácteo|queso|huevo|trigo"
        r"|soja|alcohol|gluten|penicilina)",
    ),
    "fr": (
        r"\b(?:mange|bois|boit|supporte|digère|tolère)s? (?:pas|jamais|plus)\b|\b(?:peux|peut|dois|doit) (?:pas|plus) (?:manger|boire)\b",
        r"\b(?:viande|porc\b|poisson|fruits de mer|crustacé|crevette|noix|noisette|arachide|cacahu[eè]te|lait\b|laitage|produits laitiers"
        r"|fromage|œuf|oeuf|blé\b|soja|alcool|gluten|lactose|pénicilline)",
    ),
    "it": (
        r"\bnon (?:(?:posso|può|devo|deve) (?:mangiare|bere)|mangi[oa]|bev[oe]|toller[oa]|digerisc[oe])\b",
        r"\b(?:carne|maiale|pesce|crostace|gamber|frutti di mare|noci\b|noccio|arachid|latte\b|latticini|formaggi|uov[ao]|grano|glutine"
        r"|soia|alcol|penicillina)",
    ),
    "pt": (
        r"\bn[ãa]o (?:(?:posso|pode|devo|deve) (?:comer|beber|tomar)|com[oe]|beb[oe]|toler[oa])\b",
        r"\b(?:carne|porco|peixe|camar[ãõ]|marisco|frutos do mar|nozes|amendoim|castanha|leite|laticínio|queijo|ovos?\b|trigo|soja"
        r"|álcool|gl[uú]ten|lactose|penicilina)",
    ),
    "nl": (
        r"\b(?:eet|drinkt?|verdraagt?)\b[^.!?]{0,15}\b(?:geen|nooit)\b|\b(?:mag|kan)\b[^.!?]{0,15}\bgeen\b[^.!?]{0,25}\b(?:eten|drinken)\b",
        r"\b(?:vlees|varken|vis\b|garnalen|schaaldier|schelpdier|\w*noten|pinda|melk|zuivel|kaas|ei\b|eieren|tarwe|soja|alcohol|gluten)",
    ),
    "pl": (
        r"\bnie (?:(?:mog[ęe]|mo[żz]e|wolno(?: mi| jej| jemu)?) (?:je[śs][ćc]|pi[ćc])|jem|je|jadam?|pij[ęe]|toleruj[ęe])\b",
        r"\b(?:mięs|mies[ao]|wieprzowin|wołowin|ryb\b|ryby|owoców morza|krewet|orzech|orzeszk|mlek|nabiał|ser[ao]?\b|jaj|pszenic|gluten|alkohol)",
    ),
    "ru": (
        r"\bне (?:ем|ест|едим|пью|пь[её]т|переношу|переносит|(?:могу|может) (?:есть|пить))\b|\bнельзя\b",
        r"\b(?:мяс|свинин|говядин|рыб|морепродукт|кревет|орех|арахис|молок|молочн|сыр\b|яйц|яиц|глютен|алкогол|пенициллин)",
    ),
    "uk": (
        r"\bне (?:їм|їсть|п['’]ю|п['’]є|(?:можу|може) їсти)\b|\bне можна\b",
        r"\b(?:м['’]яс|свинин|яловичин|риб|морепродукт|кревет|горіх|арахіс|молок|молочн|сир\b|яйц|яєц|глютен|алкогол)",
    ),
    "nordic": (
        r"\b(?:äter|dricker|tål|spiser|drikker|tåler)\b[^.!?]{0,6}\b(?:inte|ikke|inga|inget|ingen|aldrig|aldri)\b"
        r"|\b(?:får|kan|må) (?:inte|ikke) (?:äta|dricka|spise|drikke)\b",
        r"\b(?:kött|kjøtt|kød|fläsk|svin|fisk|skaldjur|skalldyr|räk|rejer|reker|\w*nötter|\w*nødder|\w*nøtter|mjölk|mælk|melk|ost\b|ägg|egg\b|æg|gluten)",
    ),
    "fi": (
        r"\b(?:en|ei) (?:(?:voi|saa) (?:syödä|juoda)|syö|juo|siedä)\b",
        r"\b(?:\w*lihaa|kalaa|\w*pähkinö|maito|äyriäi|katkarap|kananmun|munaa|munia|gluteeni|vehnä|alkoholi|laktoosi)",
    ),
    "tr": (
        r"\b(?:ye|yiye|içe?)m(?:iyor\w*|ez\w*|em)\b|\byemem\b",
        r"\b(?:et|eti|etini|domuz\w*|balik|baliği|deniz ürün\w*|karides|fistik|fistiği|findik|ceviz|süt|sütü|yumurta|gluten|alkol|peynir)\b",
    ),
    "id": (
        r"\b(?:tidak|nggak|enggak|gak|ga|tak) (?:(?:bisa|boleh|dapat|pernah) )?(?:makan|minum)\b",
        r"\b(?:daging|babi|ikan|udang|seafood|kacang|susu|telur|alkohol|gluten)\b",
    ),
    "vi": (
        r"\bkhông (?:(?:thể|được|bao giờ) )?(?:ăn|uống)\b",
        r"\b(?:thịt|cá|hải sản|tôm|cua|đậu phộng|lạc|sữa|trứng|rượu|gluten)\b",
    ),
    "zh": (
        r"不(?:能|可以|会|敢)?(?:吃|喝)|吃不了|喝不了",
        r"肉|鱼|魚|海鲜|海鮮|虾|蝦|蟹|坚果|堅果|花生|牛奶|奶制品|乳製品|蛋|麸质|酒|香菜",
    ),
    "ja": (
        r"(?:食べ(?:ない|ません|れない|れません|られない|られません)|飲(?:まない|みません|めない|めません))",
        r"肉|豚|魚|海老|エビ|えび|カニ|蟹|甲殻類|貝|ナッツ|ピーナッツ|落花生|卵|たまご|牛乳|乳製品|小麦|グルテン|お酒|アルコール",
    ),
    "ko": (
        r"(?:못|안) ?(?:먹|마[시셔])|(?:먹|마시)지 (?:않|못)|(?:먹|마실) 수 없|먹을 수 없",
        r"고기|돼지|생선|해산물|새우|견과|땅콩|우유|유제품|계란|달걀|밀가루|글루텐|술[을은\s]",
    ),
    "hi": (
        r"नहीं (?:खा|पी)|খা(?:ই|য়|ন) না|খেতে পারি? না|খেতে পারে না",
        r"मांस|मीट|गोश्त|मछली|अंड|मूंगफली|मेवे|दूध|चिकन|शराब|মাংস|মাছ|ডিম|বাদাম|দুধ",
    ),
    "ar": (
        r"لا (?:[آأاتي]كل|يأكل|تأكل|[أيت]شرب|(?:[أيت]ستطيع|[أيت]قدر|يمكنن?[يه]?) (?:أكل|آكل|شرب|تناول)|[أيت]تناول)",
        r"لحم|لحوم|سمك|مكسرات|فول سوداني|الفول السوداني|حليب|ألبان|بيض|خنزير|جمبري|روبيان|كحول|غلوتين",
    ),
    "he": (
        r"לא (?:אוכלת?|שותה|יכולה? (?:לאכול|לשתות))",
        r"בשר|דגים|אגוזים|בוטנים|חלב|ביצים|גלוטן|אלכוהול|שרימפס",
    ),
    "el": (
        r"δεν (?:τρώ(?:ω|ει)|πίν(?:ω|ει)|μπορ(?:ώ|εί) να (?:φά(?:ω|ει)|πι(?:ω|ει)))",
        r"κρέας|χοιριν|ψάρι|θαλασσιν|ξηρούς καρπούς|φιστίκι|γάλα|γαλακτοκομικ|αυγ[άό]|γλουτέν|αλκοόλ",
    ),
    "th": (
        r"ไม่(?:กิน|ทาน|ดื่ม)|(?:กิน|ทาน|ดื่ม).{0,20}ไม่ได้",
        r"เนื้อ|หมู|ปลา|กุ้ง|อาหารทะเล|ถั่ว|นม|ไข่|เหล้า|แอลกอฮอล์",
    ),
}
_NOT_EATEN = re.compile("|".join(f"(?P<{name}>{verbs})" for name, (verbs, _) in _SAID.items()))
_FOODS = {name: re.compile(foods) for name, (_, foods) in _SAID.items()}
_FOR_NOW = re.compile(
    r"\b(?:today|tonight|this (?:morning|evening|week)|right now|yet|tomorrow|heute|morgen|hoy|mañana|ce (?:soir|matin|midi)|aujourd'hui|demain"
    r"|oggi|stasera|domani|hoje|amanhã|vandaag|vanavond|dzi[śs]|dzisiaj|jutro|i ?dag|i kväll|tänään|bugün|bu akşam|hari ini|hôm nay|tối nay)\b"
    r"|сегодня|сьогодні|завтра|今天|今晚|明天|今日|今夜|明日|오늘|내일|आज|कल|اليوم|הערב|היום|σήμερα|απόψε|วันนี้|คืนนี้"
)


def is_not_eaten(folded: str) -> bool:
    """Whether a sentence in lower case says of a food that it is never eaten."""
    found = _NOT_EATEN.search(folded)
    return bool(found and found.lastgroup and _FOODS[found.lastgroup].search(folded)) and not _FOR_NOW.search(folded)
