"""What nodes' interfaces are, read from the tools' output."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.measure.interfaces import (
    Driver,
    Queues,
    Unreadable,
    driver,
    interface,
    mtu_command,
    mtus,
    queues,
)
from tests.unit.samples import DATA

TEXT = {path.stem: path.read_text() for path in (DATA / "interfaces").glob("*.txt")}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ena-1.2.0k", Driver("ena", "1.2.0k", None, "0000:00:05.0")),
        ("ena-upstream", Driver("ena", "6.8.0-1044-aws", None, "0000:7e:00.0")),
        ("i40e", Driver("i40e", "2.8.20-k", "6.00 0x800036cb 1.1747.0", "0000:d8:00.0")),
        ("veth", Driver("veth", "1.0", None, None)),
    ],
)
def test_a_driver_is_read_with_what_it_tells(name, expected):
    assert driver(TEXT[f"driver-{name}"]) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ena-2.2.3", Queues(1, 2)),
        ("ena-upstream", Queues(4, 4)),
        ("separate", Queues(4, 4)),
        ("veth", Queues(1, 2)),
    ],
)
def test_queues_are_those_in_use_and_those_at_most(name, expected):
    assert queues(TEXT[f"queues-{name}"]) == expected


@pytest.mark.parametrize("name", ["no-such-device", "unsupported"])
def test_what_cannot_be_read_has_the_reason_that_was_printed(name):
    reason = {"no-such-device": "No such device", "unsupported": "not supported"}[name]
    with pytest.raises(Unreadable, match=reason):
        driver(TEXT[f"driver-{name}"])
    with pytest.raises(Unreadable, match=reason):
        queues(TEXT[f"queues-{name}"])


def test_facts_that_are_unknown_say_why_and_the_others_stay():
    facts = interface(TEXT["driver-veth"], TEXT["queues-unsupported"], "there is no such file")
    assert (facts.driver, facts.queues, facts.mtu) == ("veth", None, None)
    assert facts.unknown == (
        "queues: netlink error: Operation not supported; MTU: there is no such file"
    )
    assert interface(TEXT["driver-veth"], TEXT["queues-veth"], 1500).unknown is None
    assert interface("", "", 1500).unknown == (
        "driver: nothing was printed; queues: nothing was printed"
    )


def test_each_interface_has_its_own_mtu_where_one_is_missing():
    assert mtu_command(["nope", "nfa"]) == [
        "cat",
        "/sys/class/net/nope/mtu",
        "/sys/class/net/nfa/mtu",
    ]
    assert mtus(TEXT["mtu"], ["nope", "nfa"]) == {"nfa": 1500}
    assert mtus("9001\n1500\n", ["ens5", "ens6"]) == {"ens5": 9001, "ens6": 1500}


@pytest.mark.parametrize("text", ["", "9001\n", "9001\n9001\n9001\n", "cat: write error\n"])
def test_mtus_that_may_be_anybodys_are_refused(text):
    with pytest.raises(Unreadable):
        mtus(text, ["ens5", "ens6"])


parts = st.lists(
    st.one_of(st.sampled_from(sorted(TEXT.values())), st.text(max_size=60)), max_size=3
)


@given(parts)
def test_the_readers_raise_nothing_but_their_own_error_and_invent_no_number(parts):
    text = "\n".join(parts)
    try:
        numbers = list(queues(text))
    except Unreadable:
        numbers = []
    with contextlib.suppress(Unreadable):
        numbers += mtus(text, ["nope", "nfa"]).values()
    assert all(str(number) in text for number in numbers if number is not None)
    interface(text, text, 1500)
