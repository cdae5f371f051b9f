"""Words by which people say who somebody is to them, in twenty-odd languages: kin, friends, those one works or lives
with; animals; and the words that give a name. Folded as `memkit.text.words.fold` does it.

What is a common word of another kind as well is left out where it would name strangers ("man" and "frau" stay: they
count only beside a name)."""

from __future__ import annotations

from memkit.text.words import fold

_PEOPLE = """
    mother mom mum mama mommy father dad papa daddy brother sister sis bro cousin cuz uncle aunt auntie nephew
    niece son daughter wife husband partner girlfriend boyfriend gf bf fiance fiancee friend mate buddy bestie
    roommate roomie roommates flatmate housemate neighbour neighbor colleague coworker boss teacher coach physio
    therapist landlord landlady grandma grandpa nan granny grandmother grandfather stepson stepdaughter stepmom
    stepdad twin kid kids boy girl ex babysitter nanny supervisor mentor instructor manager client customer
    tutor player mutter vater bruder schwester cousine onkel tante neffe nichte sohn tochter frau mann partnerin
    freund freundin kumpel mitbewohner mitbewohnerin nachbar nachbarin kollege kollegin chef chefin lehrer
    lehrerin oma opa schwager schwägerin madre padre hermano hermana primo prima tío tía tita sobrino sobrina
    hijo hija esposo esposa marido mujer novio novia amigo amiga compañero compañera compi vecino vecina jefe
    jefa supervisora abuela abuelo cuñado cuñada mère père frère soeur oncle neveu fils fille mari femme copain
    copine ami amie pote coloc voisin voisine collègue patron patronne fratello sorella cugino cugina zio zia
    nipote figlio figlia marito moglie fidanzato fidanzata ragazzo ragazza amico amica coinquilino coinquilina
    vicino collega capo nonna nonno mãe pai irmão irmã tio tia sobrinho sobrinha filho filha namorado namorada
    vizinho vizinha colega avó avô moeder vader broer broertje zus zusje neef oom zoon dochter vrouw vriend
    vriendin buurman buurvrouw baas aannemer huisgenoot bror syster søster kusin farbror moster dotter datter
    frun mannen fru sambo kompis vän granne grannen nabo kollega svärfar mormor farmor brat siostra kuzyn
    kuzynka wujek ciocia syn córka żona mąż chłopak dziewczyna przyjaciel przyjaciółka kolega koleżanka sąsiad
    sąsiadka szef babcia dziadek мама папа брат сестра дядя тётя племянник племянница сын дочь дочка жена муж
    парень девушка друг подруга сосед соседка коллега начальник бабушка дедушка тренер мати батько чоловік
    дружина донька сусід сусідка annem babam kardeşim ablam abim kuzenim amcam teyzem oğlum kızım karım kocam
    eşim sevgilim arkadaşım komşum patronum μητέρα πατέρας αδερφός αδερφή ξάδερφος ξαδέρφη θείος θεία γιος κόρη
    άντρας γυναίκα φίλος φίλη ibu ayah kakak adik sepupu anak suami istri pacar teman tetangga पति पत्नी बेटे
    बेटा बेटी भाई बहन ननद देवर दोस्त सहेली चाचा मामा बुआ मौसी भाभी भतीजा स्वामी স্বামী স্ত্রী ছেলে মেয়ে ভাই বোন
    বন্ধু اخويا اخوي اخي اختي صاحبي صاحبتي صديقي صديقتي ابني بنتي زوجي زوجتي جوزي مراتي خطيبي خطيبتي عمي خالي
    جاري مديري אחי אחותי חבר חברה חברי חברתי שותפה שותף השותפה השותף בעלי אשתי בני בתי דודי דודה שכן
"""
_ANIMALS = """
    dog puppy pup doggo cat kitten kitty hamster rabbit bunny parrot horse pony snake lizard tortoise turtle
    goldfish greyhound labrador labradoodle poodle dachshund spaniel terrier retriever beagle hund katze kater
    kaninchen pferd dackel hase perro perra gato gata conejo caballo chien chienne lapin cane gatto gatta
    cavallo cão cachorro cachorra cadela hond kat poes katt katten hunden kot królik собака пёс кот кошка хомяк
    пес кіт köpek köpeğim kedi kedim σκύλος γάτα anjing kucing कुत्ता बिल्ली কুকুর বিড়াল كلب كلبي كلبتي قطة
    قطتي כלב הכלב כלבה חתול חתולה
"""
_CALLS = """
    named called nicknamed heißen heten llamar appeler chiamare chamar heißt heisst namens genannt llama llaman
    llamado llamada appelle appelé appelée nommé nommée chiama chiamato chiamata chama chamado chamada heet
    genaamd heter hedder imieniem imieniu зовут назвали звати bernama tên नाम নাম اسمه اسمها اسمو اسمي ששמו ששמה
    שקוראים
"""
_AFTER_CALLS = """
    is was are it him her them also auch también tambien aussi anche também tambem ook också też тоже теж भी है
    لها له לו לה
"""
_IS = """
    is was heißt heisst heet heter ist es est är er jest είναι olan adı
"""
_FAMILY = """
    اخويا اخوي اخي اختي صاحبي صاحبتي صديقي صديقتي ابني بنتي زوجي زوجتي جوزي مراتي خطيبي خطيبتي جاري مديري
"""

_PROJECTS = """
    project repo projekt proyecto projet progetto projeto proje проект проєкт
"""

PEOPLE, ANIMALS, CALLS, AFTER_CALLS, IS, BEHIND, PROJECTS = (
    frozenset(map(fold, table.split())) for table in (_PEOPLE, _ANIMALS, _CALLS, _AFTER_CALLS, _IS, _FAMILY, _PROJECTS)
)
"""Words for people and for animals; words before a name ("a dog called Rex"), and what may stand between them; what
stands between kin and a name ("the physio is Joris"); kin that stands behind a name."""

_WITHOUT_BLANKS = """
    妹妹 姐姐 哥哥 弟弟 表妹 表姐 表哥 表弟 堂妹 堂弟 女儿 儿子 老公 老婆 男朋友 女朋友 男友 女友 朋友 闺蜜 室友
    同事 同学 邻居 老板 房东 妹 姉 弟 兄 娘 息子 夫 妻 友達 彼氏 彼女 同僚 先輩 後輩 절친 친구 룸메 동생 남친
    여친 언니 오빠 누나 남편 아내 아들 딸 선배 후배 동기 เพื่อน พี่ น้อง แฟน
"""
PEOPLE_UNSPACED = tuple(sorted(_WITHOUT_BLANKS.split(), key=len, reverse=True))
ANIMALS_UNSPACED = ("小狗", "小猫", "강아지", "고양이", "犬", "猫", "狗")
