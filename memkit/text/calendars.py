"""How twenty languages name the months and the days around today. Data only; `memkit.text.in_english` reads it.

What may as well be another word is left out: "hier" is yesterday in French and here in German, "morgen" is tomorrow and
morning, "कल" is yesterday and tomorrow.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    months: str
    """From the first to the last, the forms of each divided by bars."""
    within: str = ""
    """Words that stand before a date: "in", "on", "the"."""
    since: str = ""
    until: str = ""
    prefixes: str = ""
    """Letters for such words that are written as part of the next one."""
    bare: bool = False
    """No name of a month is another word or a person: it needs no word before it."""


LANGUAGES = {
    "ar": Names(
        "يناير فبراير مارس أبريل|ابريل|إبريل مايو يونيو|يونيه يوليو|يوليه أغسطس|اغسطس سبتمبر أكتوبر|اكتوبر"
        " نوفمبر ديسمبر",
        within="في شهر يوم",
        since="من منذ",
        until="حتى لحد لغاية",
        prefixes="بلو",
    ),
    "de": Names(
        "januar|jänner|jan februar|feb märz|maerz|marz april|apr mai juni|jun juli|jul august|aug september|sep|sept"
        " oktober|okt november|nov dezember|dez",
        within="im am vom zum der den dem anfang mitte ende",
        since="seit ab",
        until="bis",
    ),
    "es": Names(
        "enero febrero marzo abril mayo junio julio agosto septiembre|setiembre octubre noviembre diciembre",
        within="en el",
        since="desde",
        until="hasta",
    ),
    "fr": Names(
        "janvier|janv février|fevrier|févr mars avril mai juin juillet août|aout septembre octobre novembre"
        " décembre|decembre|déc",
        within="en le du début fin mi",
        since="depuis dès",
        until="jusque",
    ),
    "he": Names(
        "ינואר פברואר מרץ|מרס אפריל מאי יוני יולי אוגוסט ספטמבר אוקטובר נובמבר דצמבר",
        within="חודש",
        since="מאז",
        until="עד",
        prefixes="בלמהוש",
    ),
    "hi": Names(
        "जनवरी फरवरी|फ़रवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर|सितम्बर अक्टूबर|अक्तूबर नवंबर|नवम्बर दिसंबर|दिसम्बर", bare=True
    ),
    "id": Names(
        "januari februari maret april mei juni juli agustus september oktober november desember",
        within="bulan pada tanggal di",
        since="sejak",
        until="sampai hingga",
    ),
    "it": Names(
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        within="a in il nel di",
        since="da dal",
        until="fino al",
    ),
    "nl": Names(
        "januari|jan februari|feb maart|mrt april mei juni|jun juli|jul augustus|aug september|sept oktober|okt"
        " november|nov december|dec",
        within="in op begin eind half",
        since="sinds vanaf",
        until="tot",
    ),
    "pl": Names(
        "styczeń|stycznia|styczniu luty|lutego|lutym marzec|marca|marcu kwiecień|kwietnia|kwietniu maj|maja|maju"
        " czerwiec|czerwca|czerwcu lipiec|lipca|lipcu sierpień|sierpnia|sierpniu wrzesień|września|wrześniu"
        " październik|października|październiku listopad|listopada|listopadzie grudzień|grudnia|grudniu",
        within="w we na",
        since="od",
        until="do",
    ),
    "pt": Names(
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        within="em no",
        since="desde",
        until="até",
    ),
    "ru": Names(
        "январь|января|январе|янв февраль|февраля|феврале|фев март|марта|марте апрель|апреля|апреле|апр май|мая|мае"
        " июнь|июня|июне июль|июля|июле август|августа|августе|авг сентябрь|сентября|сентябре|сент"
        " октябрь|октября|октябре|окт ноябрь|ноября|ноябре|нояб декабрь|декабря|декабре|дек",
        within="в на начале конце середине",
        since="с со",
        until="до по",
    ),
    "sv": Names(
        "januari|jan februari|feb mars april maj juni|jun juli|jul augusti|aug september|sept oktober|okt november|nov"
        " december|dec",
        within="i den början slutet",
        since="sedan från",
        until="till",
    ),
    "th": Names("มกราคม กุมภาพันธ์ มีนาคม เมษายน พฤษภาคม มิถุนายน กรกฎาคม สิงหาคม กันยายน ตุลาคม พฤศจิกายน ธันวาคม", bare=True),
    "tr": Names("ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık"),
}
"""Chinese, Japanese, Korean and Vietnamese count their months: "5月", "5월", "tháng 5"."""

AROUND_TODAY = {
    "day before yesterday": """
        vorgestern, anteayer, antier, antes de ayer, avant hier, anteontem, eergisteren, позавчера, i förrgår,
        förrgår, 前天, 一昨日, おととい, 그저께, أول|اول امبارح|أمس|امس, hôm kia, שלשום, altro ieri, altroieri,
        przedwczoraj, evvelsi gün, kemarin dulu, เมื่อวานซืน
    """,
    "yesterday": """
        gestern, ayer, hier soir, hier matin, ontem, gisteren, вчера, igår, i går, 昨天, 昨日, きのう, 어제, امبارح,
        أمس, امس, hôm qua, אתמול, ieri, wczoraj, dün, kemarin, เมื่อวาน, เมื่อวานนี้
    """,
    "today": """
        heute, hoy, aujourd hui, hoje, vandaag, сегодня, idag, i dag, 今天, 今日, 오늘, النهاردة, النهارده, आज,
        hôm nay, היום, oggi, dzisiaj, dziś, bugün, hari ini, วันนี้
    """,
    "tomorrow": """
        demain, amanhã, amanha, завтра, imorgon, i morgon, 明天, 明日, 내일, بكرة, غداً, ngày mai, מחר, domani, jutro,
        yarın, besok, พรุ่งนี้
    """,
    "day after tomorrow": """
        übermorgen, uebermorgen, pasado mañana|manana, après|apres demain, depois de amanhã|amanha, overmorgen,
        послезавтра, i övermorgon, övermorgon, 后天, 後天, 明後日, あさって, 모레, بعد بكرة|بكره|غد, ngày kia,
        מחרתיים, dopodomani, pojutrze, öbür gün, lusa, มะรืนนี้
    """,
    "last week": """
        letzte|letzter|vergangene|vergangener|vorige|voriger woche, semana pasada,
        semaine dernière|derniere|passée|passee, semana passada, vorige|afgelopen week, прошлой неделе,
        прошлую неделю, förra veckan, 上周, 上週, 上星期, 上个星期, 上個星期, 上礼拜, 上禮拜, 上个礼拜, 上個禮拜,
        先週, 지난주, 지난 주, 저번주, 저번 주, الأسبوع|الاسبوع الماضي, الأسبوع|الاسبوع اللي فات,
        पिछले हफ्ते|हफ़्ते|सप्ताह, tuần trước|rồi, שבוע שעבר, settimana scorsa|passata, scorsa settimana,
        zeszłym|ubiegłym|poprzednim tygodniu, geçen hafta, minggu lalu, สัปดาห์ที่แล้ว, อาทิตย์ที่แล้ว
    """,
    "this week": """
        diese|dieser woche, esta semana, cette semaine, essa|nesta|nessa semana, deze week, этой неделе, эту неделю,
        denna vecka, den här veckan, 这周, 這週, 这星期, 这个星期, 這個星期, 这个礼拜, 這個禮拜, 今週, 이번주,
        이번 주, هذا الأسبوع|الاسبوع, الأسبوع|الاسبوع ده|دا, इस हफ्ते|हफ़्ते|सप्ताह, tuần này, השבוע,
        questa settimana, tym tygodniu, bu hafta, minggu ini, สัปดาห์นี้, อาทิตย์นี้
    """,
    "next week": """
        nächste|nächster|naechste|kommende|kommender woche, próxima|proxima semana, semana que viene|vem,
        semaine prochaine, volgende|komende week, следующей неделе, следующую неделю, nästa vecka, 下周, 下週, 下星期,
        下个星期, 下個星期, 下礼拜, 下禮拜, 下个礼拜, 下個禮拜, 来週, 다음주, 다음 주,
        الأسبوع|الاسبوع القادم|المقبل|الجاي, الأسبوع|الاسبوع اللي جاي, अगले हफ्ते|हफ़्ते|सप्ताह, tuần sau|tới,
        שבוע הבא, settimana prossima, prossima settimana, przyszłym|następnym tygodniu, gelecek|önümüzdeki hafta,
        minggu depan, สัปดาห์หน้า, อาทิตย์หน้า
    """,
    "last month": """
        letzten|vergangenen|vorigen monat, mes pasado, mois dernier|passé, mês|mes passado, vorige|afgelopen maand,
        прошлом месяце, прошлый месяц, förra månaden, 上个月, 上個月, 先月, 지난달, 지난 달, 저번달, 저번 달,
        الشهر الماضي, الشهر اللي فات, पिछले महीने|माह, tháng trước|rồi, חודש שעבר, mese scorso|passato, scorso mese,
        zeszłym|ubiegłym|poprzednim miesiącu, geçen ay, bulan lalu, เดือนที่แล้ว
    """,
    "this month": """
        diesen|diesem|dieser monat, este mes|mês, neste mês|mes, ce mois, deze maand, этом месяце, этот месяц,
        denna månad, den här månaden, 这个月, 這個月, 今月, 이번달, 이번 달, هذا الشهر, الشهر ده|دا, इस महीने|माह,
        tháng này, החודש, questo mese, tym miesiącu, bu ay, bulan ini, เดือนนี้
    """,
    "next month": """
        nächsten|naechsten|kommenden monat, próximo|proximo mes|mês, mes|mês que viene|vem, mois prochain,
        volgende|komende maand, следующем месяце, следующий месяц, nästa månad, 下个月, 下個月, 来月, 다음달, 다음 달,
        الشهر القادم|المقبل|الجاي, الشهر اللي جاي, अगले महीने|माह, tháng sau|tới, חודש הבא, mese prossimo,
        prossimo mese, przyszłym|następnym miesiącu, gelecek|önümüzdeki ay, bulan depan, เดือนหน้า
    """,
    "last year": """
        letztes|letzten|vergangenes|vergangenen|voriges|vorigen jahr, año|ano pasado,
        année|annee dernière|derniere|passée, an dernier|passé, ano passado, vorig|afgelopen jaar, прошлом году,
        прошлый год, прошлого года, förra året, i fjol, 去年, 昨年, 작년, 지난해, السنة|السنه الماضية, العام الماضي,
        السنة|السنه اللي فاتت, पिछले साल|वर्ष, năm ngoái, שנה שעברה, anno scorso|passato, scorso anno,
        zeszłym|ubiegłym|poprzednim roku, geçen yıl|sene, tahun lalu, ปีที่แล้ว
    """,
    "this year": """
        dieses|diesem jahr, heuer, este año|ano, neste ano, cette année|annee, dit jaar, этом году, этот год, i år,
        今年, 올해, 금년, هذا العام, هذه السنة, السنة|السنه دي, इस साल|वर्ष, năm nay, השנה, quest anno, tym roku,
        bu yıl|sene, tahun ini, ปีนี้
    """,
    "next year": """
        nächstes|nächsten|naechstes|kommendes|kommenden jahr, próximo|proximo año|ano, año|ano que viene|vem,
        année|annee prochaine, an prochain, volgend|komend jaar, следующем году, следующий год, nästa år, 明年, 来年,
        내년, السنة|السنه القادمة|الجاية, العام القادم|المقبل, السنة|السنه اللي جاية, अगले साल|वर्ष, năm sau|tới,
        שנה הבאה, anno prossimo, prossimo anno, przyszłym|następnym roku, gelecek|önümüzdeki yıl|sene, tahun depan,
        ปีหน้า
    """,
}
"""What English says → how the others say it. A word's forms are divided by bars, phrases by commas."""
