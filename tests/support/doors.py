"""Requests to a function URL with IAM authorisation, as the service documents and delivers them."""

import json
from typing import Any

ACCOUNT_ID = "123456789012"


def over_url(body: object, arn: str | None) -> dict[str, Any]:
    """The event of a signed POST by *arn*; None: a context that names nobody."""
    iam = {
        "accessKey": "ASIAEXAMPLE",
        "accountId": ACCOUNT_ID,
        "callerId": "AROAEXAMPLE:session",
        "cognitoIdentity": None,
        "principalOrgId": "o-example",
        "userArn": arn,
        "userId": "AROAEXAMPLE:session",
    }
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": "/",
        "rawQueryString": "",
        "headers": {"content-type": "application/json", "x-amz-date": "20261201T120000Z"},
        "requestContext": {
            "accountId": ACCOUNT_ID,
            "apiId": "abcdefghij",
            "authentication": None,
            "authorizer": {"iam": iam},
            "domainName": "abcdefghij.lambda-url.us-east-1.on.aws",
            "http": {"method": "POST", "path": "/", "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1"},
            "requestId": "e1506fd5-9e7b-434f-bd42-4f8fa224b599",
            "routeKey": "$default",
            "stage": "$default",
            "timeEpoch": 1764590400000,
        },
        "body": body if isinstance(body, str) else json.dumps(body),
        "isBase64Encoded": False,
    }
