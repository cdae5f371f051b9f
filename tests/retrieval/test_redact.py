"""Ready redactors: what they find as people type it, what they leave alone; no text costs more than its length."""

from __future__ import annotations

import time

import pytest

from memkit import Memory
from memkit.errors import InvalidConfig
from memkit.text.redact import REDACTORS, redactor

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7\nabc=\n-----END RSA PRIVATE KEY-----"
TOKEN = "9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4"
FOUND = {
    "cards": """
        my card is {4111 1111 1111 1111} 12/27 cvv 123
        {4111-1111-1111-1111}
        {4111.1111.1111.1111}
        card{4111111111111111}!
        amex {3782 822463 10005}
        我的卡号是{4111111111111111}谢谢
        {5555555555554444}, {6011 1111 1111 1117}
        {４１１１１１１１１１１１１１１１}
    """,
    "passwords": """
        my wifi password is {hunter2}.
        My password is {swordfish}.
        Password: {swordfish}
        the password for the router is "{correct horse battery staple}"
        I changed my password to {hunter2}, at last
        wifi: home, password {hunter2}
        {hunter2} is my wifi password
        my pin is {4711} and PIN: {4712}
        "password": "{hunter2}", "user": "ana"
        https://ana:{hunter2}@example.com/x
        pw={hunter2} psk: {hunter2}
        Mein Passwort lautet {Geheim123}!
        la contraseña del wifi es {hunter2}
        mon mot de passe est {azerty12}
        la password del wifi è {hunter2}
        minha senha é {gatinho1}
        мой пароль {hunter2}, а пароль: {зебра4408}
        hasło do wifi to {hunter2}
        密码是{hunter2}谢谢
        パスワードは{hunter2}です
        비밀번호는 {hunter2} 입니다
    """,
    "keys": f"""
        my key is {{sk-proj-abcdEFGH1234567890abcd}} ok
        {{ghp_abcdefghijklmnopqrstuvwxyz0123456789}} {{AKIAIOSFODNN7EXAMPLE}} {{xoxb-123456789012-abcdefghij}}
        密钥是{{sk-abcdefghij1234567890}}谢谢
        the api key for prod is {{{TOKEN}}}
        API_TOKEN={{Zx81kQw92LmNop34Rs}}
        Authorization: Bearer {{{TOKEN}}}
        {{{JWT}}}
    """,
    "mail": """
        mail me at {ana.b+x@example.co.uk}.
        我的邮箱是{ana@example.com}谢谢
        <{ana@bücher.example}>, mailto:{bob@example.org}?subject=x
    """,
    "phone": """
        call me on {+49 151 12345678} please
        {+1 (415) 555-0132}, {+14155550132}, {+44 (0)20 7946 0958}, {+86 138 1234 5678}, {+49-151/12345678}
        {0049 151 1234567}
        {(415) 555-0132} or {415-555-0132}
        my phone number is {07700 900123}
        call me at {00491511234567}
        Telefonnummer: {0151/2345678}
        电话：{13812345678}
    """,
}
LEFT = """
    I bought 2 dogs on 2026-05-01 at 12:30 for $1,299.00
    order 302-1234567-1234567, order number 0012345678, invoice no 415-555-0132, tracking 1Z999AA10123456784
    no card: 4111 1111 1111 1112, 1234 5678 9012 3456, IBAN DE89 3704 0044 0532 0130 00, ISBN 978-3-16-148410-0
    call me on 24.12.2026, call me at 12:30, phone call at 5, my number is 7
    2026-05-01T10:00:00+02:00, 24 12 2026, 10-11 2026, 1732368000000, 0.4532015112830366
    in 2026 I paid 1 200 000 000 EUR, +1 234 567.89 USD, my salary is 120 000 dollars
    550e8400-e29b-41d4-a716-446655440000, 10.0.0.1 and 192.168.178.20, version 1.2.3-4567890
    my pets: 3 cats 12 dogs 100 fish 1000 ants 22222 bees; the score was 21-19 21-17; 10.5 km in 45:30
    What is my password? I forgot my password yesterday. The password must be 8 characters. passwords are hard
    my password is wrong. The password is too short, the password is not working, password manager is great
    Contraseña incorrecta. Mein Passwort ist abgelaufen. I gave the password to Anna. pin the message
    I have to pass 1000 times. Nothing changed during this pass: 2,760 USD remains.
    the key is under the mat, the key to success is hard work, the secret is love, token limit is 4096
    sk-learn-is-a-nice-library, ana at example, @ana, a@b
"""


def lines(block: str) -> list[str]:
    return [line.strip() for line in block.splitlines() if line.strip()]


CASES = [(name, line) for name, block in FOUND.items() for line in lines(block)]


@pytest.mark.parametrize(("name", "line"), CASES)
def test_what_people_type_is_found_alone_and_among_all(name: str, line: str) -> None:
    mark = REDACTORS[name][0]
    said = line.replace("{", "").replace("}", "")
    wanted = "".join(part if place % 2 == 0 else mark for place, part in enumerate(line.replace("}", "{").split("{")))
    redact, everything = redactor([name]), redactor("all")
    assert redact is not None
    assert everything is not None
    assert redact(said) == wanted
    assert redact(wanted) == wanted, "what is redacted stays as it is"
    once = everything(said)
    assert mark in once
    assert everything(once) == once


@pytest.mark.parametrize("line", lines(LEFT))
def test_dates_prices_order_numbers_and_talk_about_passwords_are_left_alone(line: str) -> None:
    redact = redactor("all")
    assert redact is not None
    assert redact(line) == line


def test_a_key_block_goes_from_its_beginning_to_its_end_or_as_far_as_it_was_pasted() -> None:
    redact = redactor(["keys"])
    assert redact is not None
    assert redact(f"here: {PEM} done") == "here: [key] done"
    assert redact(PEM.split("\nabc")[0] + "\nand so on") == "[key]\nand so on"


def test_a_wrong_name_is_refused_with_those_that_there_are(tmp_path: object) -> None:
    for wrong in ("card", ["cards", "pins"], [], "", 5, ["all", "cards"]):
        with pytest.raises(InvalidConfig, match="keys, passwords, cards, mail, phone"):
            Memory(f"{tmp_path}/s", redact=wrong)  # type: ignore[arg-type]
    for right in ("cards,keys", " cards , keys", ["keys", "cards"], {"cards", "keys"}):
        redact = redactor(right)
        assert redact is not None
        assert redact("4111111111111111, AKIAIOSFODNN7EXAMPLE, a@b.de") == "[card], [key], a@b.de"


HOSTILE = [
    *("a", "a@", "a@b.", "4111 ", "415-", "+1", "00 1", "+49 1 1 1 1 1 1 1 ", "phone number ", "://a:", "ก"),
    *("password ", "password:", "a is my password ", "“password” is “", "key:a1B", "-eyJaaaaaaaaa"),
    *("SG.aaaaaaaaaaaaaaaaaaaaaa.", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY----- AAAAAAAAAAAAAAAAAAAA "),
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_no_text_costs_more_than_its_length(piece: str) -> None:
    redact = redactor("all")
    assert redact is not None

    def cost(kilobytes: int) -> float:
        text = (piece * (kilobytes * 1024 // len(piece) + 1))[: kilobytes * 1024]
        started = time.thread_time()
        redact(text)
        return (time.thread_time() - started) / kilobytes

    whole, part = (min(cost(kilobytes) for _ in range(2)) for kilobytes in (256, 16))
    assert whole < 4 * max(part, 20e-6)  # a square would be 16 times as much
