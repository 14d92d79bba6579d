"""Selectors and tolerations are read as Kubernetes reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate_contract.selectors import (
    Requirement,
    Selector,
    Toleration,
    Unparsable,
    parse_tolerations,
    taint_text,
)

NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,20}[A-Za-z0-9])?", fullmatch=True)
KEYS = NAMES | st.from_regex(r"[a-z0-9]{1,9}(\.[a-z0-9]{1,9}){0,3}", fullmatch=True).flatmap(
    lambda prefix: NAMES.map(lambda name: f"{prefix}/{name}")
)
VALUES = st.just("") | NAMES
REQUIREMENTS = st.builds(
    Requirement,
    KEYS,
    st.sampled_from(["In", "NotIn"]),
    st.sets(VALUES, min_size=1, max_size=4).map(lambda values: tuple(sorted(values))),
) | st.builds(Requirement, KEYS, st.sampled_from(["Exists", "DoesNotExist"]))
REQUIREMENTS |= st.builds(
    Requirement,
    KEYS,
    st.sampled_from(["Gt", "Lt"]),
    st.integers(0, 2**63 - 1).map(lambda value: (str(value),)),
)
SELECTORS = st.sets(REQUIREMENTS, min_size=1, max_size=5).map(
    lambda some: Selector(tuple(sorted(some)))
)


@given(SELECTORS)
def test_a_selectors_text_reads_as_the_same_selector(selector):
    assert Selector.parse(str(selector)) == selector


@given(SELECTORS, st.randoms())
def test_neither_order_nor_blanks_change_a_selector(selector, random):
    parts = [str(each).replace(",", " , ") for each in selector.requirements]
    random.shuffle(parts)
    assert Selector.parse(" , ".join(parts)) == selector


@given(st.text(alphabet="ab1=!<>,() /:", max_size=20))
def test_a_text_is_a_selector_or_is_refused(text):
    try:
        selector = Selector.parse(text)
    except Unparsable as error:
        assert error.problem and error.remedy
    else:
        assert Selector.parse(str(selector)) == selector


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pool=fast", Requirement("pool", "In", ("fast",))),
        ("pool == fast", Requirement("pool", "In", ("fast",))),
        ("pool=", Requirement("pool", "In", ("",))),
        ("pool!=fast", Requirement("pool", "NotIn", ("fast",))),
        ("karpenter.sh/nodepool", Requirement("karpenter.sh/nodepool", "Exists")),
        ("!pool", Requirement("pool", "DoesNotExist")),
        ("pool in (b, a,b)", Requirement("pool", "In", ("a", "b"))),
        ("pool notin(a)", Requirement("pool", "NotIn", ("a",))),
        ("in in (in)", Requirement("in", "In", ("in",))),
        (
            "karpenter.k8s.aws/instance-network-bandwidth>8000",
            Requirement("karpenter.k8s.aws/instance-network-bandwidth", "Gt", ("8000",)),
        ),
        ("instance-cpu < 16", Requirement("instance-cpu", "Lt", ("16",))),
    ],
)
def test_each_form_of_a_condition(text, expected):
    assert Selector.parse(text).requirements == (expected,)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("a=b,", "empty"),
        ("a=b=c", "'a=b=c'"),
        ("-a", "'-a'"),
        ("a=b c", "'b c'"),
        ("a in b", "'a in b'"),
        ("a in (b,c", "'a in (b'"),
        ("a,!", "''"),
        ("A.b/c/d=e", "'A.b/c/d'"),
        (f"{'a' * 64}=b", "a" * 64),
        ("Upper.Case/a", "'Upper.Case/a'"),
        ("a>1.5", "'1.5'"),
        ("a>-1", "'-1'"),
        ("a<", "''"),
        ("a>b", "'b'"),
        (f"a<{2**63}", str(2**63)),
        ("a>1>2", "'a>1>2'"),
    ],
)
def test_what_is_no_selector_is_quoted(text, problem):
    with pytest.raises(Unparsable) as refused:
        Selector.parse(text)
    assert problem in refused.value.problem


def test_values_of_a_label_are_those_that_every_condition_allows():
    selector = Selector.parse("a in (x,y),a in (y,z),b!=x,c")
    assert selector.values_of("a") == ("y",)
    assert (selector.values_of("b"), selector.values_of("c"), selector.values_of("d")) == (
        (),
        (),
        (),
    )


def test_a_pods_affinity_has_the_selectors_conditions():
    affinity = Selector.parse("a in (x,y),!b,c,d>1").affinity["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {
        "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["x", "y"]},
            {"key": "b", "operator": "DoesNotExist"},
            {"key": "c", "operator": "Exists"},
            {"key": "d", "operator": "Gt", "values": ["1"]},
        ]
    }


@pytest.mark.parametrize(
    ("text", "expected", "manifest"),
    [
        (
            "dedicated=bench:NoSchedule",
            Toleration("dedicated", "bench", "NoSchedule"),
            {"key": "dedicated", "operator": "Equal", "value": "bench", "effect": "NoSchedule"},
        ),
        (
            "dedicated:NoExecute",
            Toleration("dedicated", None, "NoExecute"),
            {"key": "dedicated", "operator": "Exists", "effect": "NoExecute"},
        ),
        (
            "dedicated=bench",
            Toleration("dedicated", "bench"),
            {"key": "dedicated", "operator": "Equal", "value": "bench"},
        ),
        ("a.b/c", Toleration("a.b/c"), {"key": "a.b/c", "operator": "Exists"}),
    ],
)
def test_each_form_of_a_toleration(text, expected, manifest):
    assert parse_tolerations(f" {text} ,{text}") == (expected,)
    assert expected.manifest == manifest


@pytest.mark.parametrize("text", ["a:Never", "=b", "a=b c", ",", ":NoSchedule", "a:", "*"])
def test_what_is_no_toleration_is_refused(text):
    with pytest.raises(Unparsable):
        parse_tolerations(text)


@given(KEYS, VALUES, st.sampled_from(["NoSchedule", "NoExecute"]))
def test_a_taints_own_text_tolerates_it_and_no_other(key, value, effect):
    taint = {"key": key, "effect": effect} | ({"value": value} if value else {})
    (toleration,) = parse_tolerations(taint_text(taint))
    assert toleration.covers(taint)
    other = "NoSchedule" if effect == "NoExecute" else "NoExecute"
    assert not toleration.covers({**taint, "effect": other})
    assert not toleration.covers({**taint, "key": f"{key}x"})
    assert parse_tolerations(key)[0].covers(taint)


def test_no_text_tolerates_nothing():
    assert parse_tolerations(" ") == ()
