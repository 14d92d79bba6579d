"""The price list answers what an estimate asks, with the prices that docs/cost.md documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lab.tests.aws.region import Lab, allow
from rackrate.plan import prices as domain

ACTION = "pricing:GetProducts"


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    domain.forget()
    yield
    domain.forget()


@pytest.fixture
def pricing(lab: Lab) -> Any:
    return lab.as_role(lab.role("lambda.amazonaws.com", allow(ACTION, "*")), "pricing")


def test_every_documented_price_is_the_apis(pricing: Any) -> None:
    by_query = domain.prices(domain.FALLBACK, region="us-east-1", pricing=pricing)
    assert {query: price.usd for query, price in by_query.items()} == {
        query: figure.usd for query, figure in domain.FALLBACK.items()
    }
    assert {price.trouble for price in by_query.values()} == {None}


def test_a_product_has_the_attributes_by_which_it_was_found(pricing: Any) -> None:
    asked = {"instanceType": "c5.large", "operatingSystem": "Linux", "regionCode": "us-east-1"}
    filters = [{"Type": "TERM_MATCH", "Field": key, "Value": asked[key]} for key in asked]
    (text,) = pricing.get_products(ServiceCode="AmazonEC2", Filters=filters)["PriceList"]
    attributes = json.loads(text)["product"]["attributes"]
    assert asked.items() <= attributes.items()
    assert attributes["usagetype"] == "BoxUsage:c5.large"


@pytest.mark.parametrize(
    ("query", "region"),
    [
        (domain.instance_hour("x99.mega"), "us-east-1"),
        (domain.instance_hour("c5.large"), "eu-west-1"),
        (domain.CROSS_ZONE_GIGABYTE, "eu-west-1"),
    ],
)
def test_nothing_is_listed_of_which_no_price_is_documented(
    pricing: Any, query: domain.Query, region: str
) -> None:
    price = domain.prices([query], region=region, pricing=pricing)[query]
    assert price.trouble == "the API lists no such price, or several"


def test_a_role_that_may_not_ask_is_refused(lab: Lab) -> None:
    pricing = lab.as_role(lab.role("lambda.amazonaws.com", allow("ec2:*", "*")), "pricing")
    with pytest.raises(pricing.exceptions.AccessDeniedException, match=f"perform: {ACTION}"):
        pricing.get_products(ServiceCode="AmazonEKS")


def test_another_type_of_filter_is_refused_and_not_ignored(pricing: Any) -> None:
    request = {"Type": "CONTAINS", "Field": "usagetype", "Value": "perCluster"}
    with pytest.raises(pricing.exceptions.InvalidParameterException, match="TERM_MATCH only"):
        pricing.get_products(ServiceCode="AmazonEKS", Filters=[request])
