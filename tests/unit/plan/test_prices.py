"""Prices: from the Price List API, or else from the dated table, never guessed."""

from __future__ import annotations

import json
import re

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.stub import ANY, Stubber
from hypothesis import given
from hypothesis import strategies as st

from rackrate.plan import prices as pricing
from rackrate.plan.prices import (
    CLUSTER_HOUR,
    CROSS_ZONE_GIGABYTE,
    FALLBACK,
    LAMBDA_GIGABYTE_SECOND,
    LAMBDA_REQUEST,
    STATE_TRANSITION,
    find_amount,
    instance_hour,
    prices,
)

C5 = instance_hour("c5.large")


@pytest.fixture(autouse=True)
def nothing_known():
    pricing.forget()
    yield
    pricing.forget()


@pytest.fixture(scope="module")
def client():
    session = boto3.Session(aws_access_key_id="a", aws_secret_access_key="b")
    return pricing.client(session, "eu-west-1")


@pytest.fixture
def stub(client):
    """The client's responses, all of which a test must use."""
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def product(usage_type, *tiers, service="AmazonEC2", **attributes):
    """A product as in GetProducts, in the price list's `aws_v1` format."""
    dimensions = {
        f"SKU.JRTCKXETXF.{n}": {
            "unit": "Hrs",
            "beginRange": begin,
            "endRange": "Inf",
            "description": "...",
            "appliesTo": [],
            "rateCode": f"SKU.JRTCKXETXF.{n}",
            "pricePerUnit": {"USD": usd},
        }
        for n, (begin, usd) in enumerate(tiers)
    }
    return {
        "product": {
            "productFamily": "Compute Instance",
            "sku": "SKU",
            "attributes": {"servicecode": service, "usagetype": usage_type, **attributes},
        },
        "serviceCode": service,
        "terms": {
            "OnDemand": {
                "SKU.JRTCKXETXF": {
                    "priceDimensions": dimensions,
                    "sku": "SKU",
                    "effectiveDate": "2026-11-01T00:00:00Z",
                    "offerTermCode": "JRTCKXETXF",
                    "termAttributes": {},
                }
            }
        },
        "version": "20261101000000",
        "publicationDate": "2026-11-01T00:00:00Z",
    }


def answer(*products, **more):
    texts = [json.dumps(value) for value in products]
    return {"FormatVersion": "aws_v1", "PriceList": texts, **more}


EC2_ANSWER = answer(product("EU-BoxUsage:c5.large", ("0", "0.0960000000")))


class TestAskingTheApi:
    def test_an_instances_hour_is_asked_for_by_every_attribute_of_it(self, client, stub):
        expected = {
            "ServiceCode": "AmazonEC2",
            "FormatVersion": "aws_v1",
            "Filters": [
                {"Type": "TERM_MATCH", "Field": field, "Value": value}
                for field, value in (
                    ("instanceType", "c5.large"),
                    ("operatingSystem", "Linux"),
                    ("tenancy", "Shared"),
                    ("preInstalledSw", "NA"),
                    ("capacitystatus", "Used"),
                    ("regionCode", "eu-west-1"),
                )
            ],
        }
        stub.add_response("get_products", EC2_ANSWER, expected)
        price = prices([C5], region="eu-west-1", pricing=client)[C5]
        assert (price.usd, price.source) == (0.096, "AWS Price List API, eu-west-1")
        assert price.trouble is None

    def test_every_page_is_read(self, client, stub):
        other = answer(product("EU-BoxUsage:c5.xlarge", ("0", "0.192")), NextToken="more")
        stub.add_response("get_products", other)
        stub.add_response("get_products", EC2_ANSWER)
        assert prices([C5], region="eu-west-1", pricing=client)[C5].usd == 0.096

    def test_a_price_is_asked_for_once_in_a_process(self, client, stub):
        stub.add_response("get_products", EC2_ANSWER)
        first = prices([C5], region="eu-west-1", pricing=client)
        again = prices([C5], region="eu-west-1", pricing=client)
        assert first == again

    def test_a_region_does_not_take_anothers_price(self, client, stub):
        stub.add_response("get_products", EC2_ANSWER)
        stub.add_response("get_products", answer())
        prices([C5], region="eu-west-1", pricing=client)
        assert prices([C5], region="us-east-1", pricing=client)[C5].usd == 0.085

    def test_cross_zone_traffic_is_asked_for_by_the_region_it_leaves(self, client, stub):
        meters = answer(
            product("EU-DataTransfer-Regional-Bytes", ("0", "0.01"), service="AWSDataTransfer"),
            product("EU-DataTransfer-xAZ-Out-Bytes", ("0", "0.00"), service="AWSDataTransfer"),
        )
        stub.add_response(
            "get_products",
            meters,
            {"ServiceCode": "AWSDataTransfer", "Filters": ANY, "FormatVersion": "aws_v1"},
        )
        by_query = prices([CROSS_ZONE_GIGABYTE], region="eu-west-1", pricing=client)
        assert by_query[CROSS_ZONE_GIGABYTE].usd == 0.01

    @pytest.mark.parametrize(
        ("region", "endpoint"),
        [
            ("us-west-2", "us-east-1"),
            ("sa-east-1", "us-east-1"),
            ("eu-north-1", "eu-central-1"),
            ("me-south-1", "eu-central-1"),
            ("ap-southeast-2", "ap-south-1"),
        ],
    )
    def test_the_nearest_endpoint_is_asked(self, region, endpoint):
        session = boto3.Session(aws_access_key_id="a", aws_secret_access_key="b")
        assert endpoint in pricing.ENDPOINT_REGIONS
        assert pricing.client(session, region).meta.region_name == endpoint

    def test_a_client_neither_waits_nor_tries_for_long(self, client):
        config = client.meta.config
        assert config.connect_timeout <= 2
        assert config.read_timeout <= 5
        assert config.retries["total_max_attempts"] <= 2


class TestReadingAnAnswer:
    @pytest.mark.parametrize(
        ("query", "usage_type", "other"),
        [
            (C5, "BoxUsage:c5.large", "DedicatedUsage:c5.large"),
            (C5, "APS2-BoxUsage:c5.large", "APS2-BoxUsage:c5.large.elasticsearch"),
            (
                CLUSTER_HOUR,
                "USE1-AmazonEKS-Hours:perCluster",
                "USE1-AmazonEKS-Hours:extendedSupport",
            ),
            (STATE_TRANSITION, "EU-StateTransition", "EU-StepFunctions-Request"),
            (LAMBDA_REQUEST, "Request", "Lambda-Edge-Request-ARM"),
            (LAMBDA_GIGABYTE_SECOND, "EUC1-Lambda-GB-Second", "EUC1-Lambda-GB-Second-ARM"),
            (CROSS_ZONE_GIGABYTE, "DataTransfer-Regional-Bytes", "DataTransfer-xAZ-In-Bytes"),
        ],
    )
    def test_the_usage_type_tells_the_product_from_its_neighbours(self, query, usage_type, other):
        products = [product(other, ("0", "9")), product(usage_type, ("0", "0.5"))]
        assert find_amount(products, query) == 0.5
        assert find_amount(products[:1], query) is None

    def test_the_first_tier_that_costs_is_taken(self):
        tiers = (("1000", "0.4"), ("10", "0.5"), ("0", "0"))
        assert find_amount([product("BoxUsage:c5.large", *tiers)], C5) == 0.5

    def test_products_that_differ_are_not_chosen_from(self):
        twice = [product("BoxUsage:c5.large", ("0", usd)) for usd in ("0.085", "0.085")]
        assert find_amount(twice, C5) == 0.085
        differing = [*twice, product("BoxUsage:c5.large", ("0", "0.2"))]
        assert find_amount(differing, C5) is None

    def test_a_price_in_another_currency_and_a_free_product_are_none(self):
        yuan = product("BoxUsage:c5.large", ("0", "1"))
        for tier in yuan["terms"]["OnDemand"]["SKU.JRTCKXETXF"]["priceDimensions"].values():
            tier["pricePerUnit"] = {"CNY": "0.6"}
        assert find_amount([yuan], C5) is None
        assert find_amount([product("BoxUsage:c5.large", ("0", "0"))], C5) is None

    def test_reserved_terms_are_no_price(self):
        reserved = product("BoxUsage:c5.large", ("0", "0.05"))
        reserved["terms"] = {"Reserved": reserved["terms"]["OnDemand"]}
        assert find_amount([reserved], C5) is None


class TestWhenTheApiDoesNotTell:
    def test_a_refusal_takes_the_table_and_asks_no_more(self, client, stub):
        stub.add_client_error("get_products", "AccessDeniedException", http_status_code=400)
        by_query = prices([C5, CLUSTER_HOUR], region="us-east-1", pricing=client)
        assert (by_query[C5].usd, by_query[CLUSTER_HOUR].usd) == (0.085, 0.10)
        assert {price.trouble for price in by_query.values()} == {
            "the API answered AccessDeniedException"
        }

    def test_a_query_it_does_not_understand_says_nothing_of_the_next(self, client, stub):
        stub.add_client_error("get_products", "InvalidParameterException")
        stub.add_response("get_products", EC2_ANSWER)
        by_query = prices([CROSS_ZONE_GIGABYTE, C5], region="eu-west-1", pricing=client)
        assert by_query[CROSS_ZONE_GIGABYTE].trouble is not None
        assert by_query[C5].trouble is None

    def test_an_api_that_cannot_be_reached_is_tried_for_one_price_only(self):
        class Unreachable:
            requests = 0

            def get_paginator(self, name):
                self.requests += 1
                raise EndpointConnectionError(endpoint_url="https://api.pricing.example")

        unreachable = Unreachable()
        by_query = prices([C5, CLUSTER_HOUR], region="us-east-1", pricing=unreachable)
        assert unreachable.requests == 1
        assert by_query[C5].usd == 0.085
        assert "could not be reached" in (by_query[C5].trouble or "")

    @pytest.mark.parametrize(
        "text",
        [
            "no JSON",
            "[]",
            "{}",
            '{"product": {"attributes": []}}',
            json.dumps(product("BoxUsage:c5.large", ("0", "free"))),
            json.dumps(product("BoxUsage:c5.large", ("0", "nan"))),
            json.dumps(product("BoxUsage:c5.large", ("0", "-1"))),
            json.dumps(product("BoxUsage:c5.large", ("zero", "1"))),
        ],
    )
    def test_an_answer_that_makes_no_sense_takes_the_table(self, client, stub, text):
        stub.add_response("get_products", {"FormatVersion": "aws_v1", "PriceList": [text]})
        price = prices([C5], region="us-east-1", pricing=client)[C5]
        assert (price.usd, price.trouble) == (0.085, "the API's answer could not be read")

    @given(
        st.recursive(
            st.none() | st.booleans() | st.text() | st.floats(),
            lambda inner: (
                st.lists(inner)
                | st.dictionaries(
                    st.sampled_from(
                        [
                            "product",
                            "attributes",
                            "terms",
                            "OnDemand",
                            "priceDimensions",
                            "usagetype",
                            "USD",
                        ]
                    ),
                    inner,
                )
            ),
            max_leaves=12,
        )
    )
    def test_no_answer_whatever_makes_an_estimate_fail(self, value):
        class Answering:
            def get_paginator(self, name):
                return self

            def paginate(self, **request):
                return [{"PriceList": [json.dumps(value)]}]

        pricing.forget()
        price = prices([C5], region="us-east-1", pricing=Answering())[C5]
        assert price.usd == 0.085

    def test_another_region_is_told_that_the_table_is_not_its_own(self):
        price = prices([CLUSTER_HOUR], region="eu-west-1", pricing=None)[CLUSTER_HOUR]
        assert price.usd == 0.10
        assert price.source.startswith(
            "us-east-1 price of 2026-08 (eu-west-1 may differ), price list AmazonEKS/"
        )
        assert "differ" not in prices([C5], region="us-east-1", pricing=None)[C5].source

    def test_a_type_that_is_in_no_table_has_no_price(self):
        query = instance_hour("x99.mega")
        price = prices([query], region="us-east-1", pricing=None)[query]
        assert (price.usd, price.source) == (None, "unknown")
        assert price.trouble

    def test_the_tables_price_is_not_kept_for_when_the_api_answers_again(self, client, stub):
        prices([C5], region="eu-west-1", pricing=None)
        stub.add_response("get_products", EC2_ANSWER)
        assert prices([C5], region="eu-west-1", pricing=client)[C5].usd == 0.096


@pytest.mark.parametrize("figure", FALLBACK.values(), ids=lambda figure: figure.source[-40:])
def test_every_figure_of_the_table_is_read_from_aws_with_its_date(figure):
    offer = re.fullmatch(r"price list [A-Za-z0-9]+/(\d{4})(\d\d)\d{8}", figure.source)
    assert figure.usd > 0
    if offer:
        assert figure.date == f"{offer[1]}-{offer[2]}", "a version begins with its date"
    else:
        assert re.match(
            r"https://(aws\.amazon\.com/|docs\.aws\.amazon\.com/|github\.com/aws/)", figure.source
        ), "only AWS itself says what AWS costs"
        assert re.fullmatch(r"20\d\d-\d\d", figure.date)
