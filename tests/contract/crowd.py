"""Many people with one Quilt stack and its AWS account. The data of each person has its own mark.

A mark is `zq`, two digits for the person, and a letter and a digit: `g1` in the data of Quilt and AWS after the first
sign-in, `g2` after the second, `w0` in the person's workflows. All credentials contain SECRET.
"""

import re
from contextlib import ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from types import TracebackType
from typing import Any, Self

from quilt_mcp.demo.http_server import Answer, LoopbackServer, Request
from quilt_mcp.demo.records import Bucket, Company, Package, Policy, Revision, Role, User
from quilt_mcp.demo.stack import FakeStack, Grant

SECRET = "S3CRET"
MARK = re.compile(r"zq\w\w[gw]\d")
DAY = "2025-01-01T00:00:00Z"
EXPIRY = "2099-01-01T00:00:00Z"
OPERATOR = "zqxxg0"
"""The mark of the server's operator: of the login and the AWS keys on its machine."""

_STS = """<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>
<Arn>arn:aws:sts::123456789012:assumed-role/{mark}-role/{mark}</Arn><UserId>AROA:{mark}</UserId>
<Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"""
_OBJECTS = "<ListBucketResult><Contents><Key>{mark}.txt</Key></Contents></ListBucketResult>"
_BUCKETS = """<ListAllMyBucketsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Owner><ID>{mark}</ID></Owner>
<Buckets><Bucket><Name>{mark}-private</Name></Bucket></Buckets></ListAllMyBucketsResult>"""


@dataclass
class Person:
    """A person with a token for the server and one for Quilt. Every second person is an administrator in Quilt."""

    number: int
    generation: int = 0
    quilt_token: str = ""
    server_token: str = field(init=False)

    def __post_init__(self) -> None:
        self.server_token = f"{SECRET}-server-{self.number}"

    @property
    def mark(self) -> str:
        """Marks expected in the data that Quilt and AWS return for this person now."""
        return f"zq{self.number:02}g{self.generation}"

    @property
    def workflow_mark(self) -> str:
        """Marks expected in the person's workflows."""
        return f"zq{self.number:02}w0"

    @property
    def is_admin(self) -> bool:
        """Whether this person is an administrator in Quilt."""
        return self.number % 2 == 0

    @property
    def has_open_query(self) -> bool:
        """The value expected in the one answer of the stack that cannot contain a mark."""
        return self.number % 4 == 0


class Crowd:
    """The stack and the AWS account of these people, over HTTP on 127.0.0.1.

    Attributes:
        people: the people. All are signed in when the context is entered.
        stack: the stack.
        aws: AWS.
        aws_requests: the approximate number of requests to AWS.
    """

    def __init__(self, size: int) -> None:
        self.people = [Person(number) for number in range(size)]
        self._marks: dict[str, tuple[str, str]] = {}
        self._numbers = count()
        self.aws_requests = 0
        self._servers = ExitStack()
        self.stack = FakeStack(_company(OPERATOR, is_admin=True, has_open_query=True), self._issue_keys)
        self.aws = LoopbackServer(self._answer_aws, 0)

    def __enter__(self) -> Self:
        self._servers.enter_context(self.stack)
        self.aws.start()
        self._servers.callback(self.aws.stop)
        for person in self.people:
            self.sign_in(person)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._servers.close()

    @property
    def aws_url(self) -> str:
        """The address of all AWS services."""
        return f"http://127.0.0.1:{self.aws.port}"

    def sign_in(self, person: Person) -> None:
        """Sign the person in (again) with a new token. Quilt and AWS then return other data for them."""
        person.generation += 1
        company = _company(person.mark, is_admin=person.is_admin, has_open_query=person.has_open_query)
        [user, *_] = company.users
        self.stack.views[user.name] = company
        person.quilt_token = f"qk_{SECRET}-{next(self._numbers)}"
        self.stack.grants[person.quilt_token] = Grant(user, user.is_admin, float("inf"))

    def expire(self, person: Person) -> None:
        """Let the person's Quilt token expire."""
        del self.stack.grants[person.quilt_token]

    def aws_keys(self, mark: str) -> dict[str, str]:
        """Return AWS keys that give access to the data with this mark."""
        key = f"AKIA{next(self._numbers):012}"
        self._marks[key] = mark, f"{SECRET}-{key}"
        return {
            "AccessKeyId": key,
            "SecretAccessKey": f"{SECRET}-{key}",
            "SessionToken": f"{SECRET}-{key}",
            "Expiration": EXPIRY,
        }

    def _issue_keys(self, user: User) -> dict[str, str]:
        return self.aws_keys(user.name.removesuffix("_user"))

    def _answer_aws(self, request: Request) -> Answer:
        self.aws_requests += 1
        key = request.signature.partition("Credential=")[2].partition("/")[0]
        mark, token = self._marks.get(key, ("", ""))
        if not mark or token != request.aws_token:
            return Answer(HTTPStatus.FORBIDDEN, {"__type": "UnrecognizedClientException", "message": ""})
        if request.target:
            return Answer(HTTPStatus.OK, _json_answer(request, mark))
        if request.method == "POST":
            return Answer(HTTPStatus.OK, _STS.format(mark=mark).encode())
        if request.path == "/":
            return Answer(HTTPStatus.OK, _BUCKETS.format(mark=mark).encode())
        _, bucket, *object_key = request.path.split("/")
        if not bucket.startswith(mark):
            return Answer(HTTPStatus.FORBIDDEN, b"")
        return Answer(HTTPStatus.OK, b"" if object_key and object_key[0] else _OBJECTS.format(mark=mark).encode())


def _json_answer(request: Request, mark: str) -> dict[str, Any]:
    execution = {
        "QueryExecutionId": f"{mark}-query",
        "Query": f"SELECT '{mark}'",
        "WorkGroup": f"{mark}-group",
        "Status": {"State": "SUCCEEDED", "SubmissionDateTime": 1_735_689_600.0},
    }
    table = {"Name": f"{mark}_table", "DatabaseName": f"{mark}_database"}
    answers: dict[str | None, dict[str, Any]] = {
        "AWSGlue.GetTables": {"TableList": [table]},
        "AWSGlue.GetTable": {"Table": table},
        "AmazonAthena.GetDataCatalog": {"DataCatalog": {"Name": mark, "Type": "LAMBDA"}},
        "AWSGlue.GetDatabases": {"DatabaseList": [{"Name": f"{mark}_database", "Description": mark}]},
        "AmazonAthena.ListWorkGroups": {"WorkGroups": [{"Name": f"{mark}-group", "State": "ENABLED"}]},
        "AmazonAthena.GetWorkGroup": {
            "WorkGroup": {
                "Name": f"{mark}-group",
                "Configuration": {"ResultConfiguration": {"OutputLocation": f"s3://{mark}-results/"}},
            }
        },
        "AmazonAthena.ListQueryExecutions": {"QueryExecutionIds": [f"{mark}-query"]},
        "AmazonAthena.GetQueryExecution": {"QueryExecution": execution},
        "AmazonAthena.GetQueryResults": {
            "ResultSet": {
                "Rows": [{"Data": [{"VarCharValue": "_col0"}]}, {"Data": [{"VarCharValue": mark}]}],
                "ResultSetMetadata": {"ColumnInfo": [{"Name": "_col0", "Type": "varchar"}]},
            }
        },
        "AmazonAthena.BatchGetQueryExecution": {"QueryExecutions": [execution], "UnprocessedQueryExecutionIds": []},
    }
    return answers[request.target]


def _company(mark: str, *, is_admin: bool, has_open_query: bool) -> Company:
    role = Role(f"{mark}-role", (Policy(f"{mark} policy", {f"{mark}-data": "READ_WRITE"}),))
    people = (
        User(f"{mark}_user", DAY, DAY, role.name, is_admin=is_admin),
        User(f"{mark}_colleague", DAY, DAY, None, is_admin=True),
    )
    package = Package("lab/study", (Revision(1_735_689_600, f"Study of {mark}", {}, {"owner": mark}),))
    tables = {f"{mark}_table": f"schema: {mark}"}
    bucket = Bucket(f"{mark}-data", f"Data of {mark}", DAY, tables=tables, packages=(package,))
    sso = f"mappings: [{mark}]"
    return Company("crowd", people, (role,), (bucket,), sso=sso, open_query=has_open_query)
