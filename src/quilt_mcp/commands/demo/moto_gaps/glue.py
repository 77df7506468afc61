"""Glue.

| request                  | moto                | AWS, and here                                                       |
|--------------------------|---------------------|---------------------------------------------------------------------|
| any action of Glue       | needs rights on `*` | needs rights on the data catalog, on the database and on the table  |
| GetDatabases, GetTables  | one page            | pages of up to 100                                                  |

AWS lists the resource types of each action in its service authorization reference. A list needs rights on all that
it can return, here `database/*` or `table/<database>/*`. Unknown: whether a policy that names only some tables is
enough for it.
"""

from collections.abc import Mapping, Sequence

from moto.core.exceptions import JsonRESTError
from moto.core.responses import ActionResult
from moto.glue.responses import GlueResponse

from quilt_mcp.commands.demo.moto_gaps.behaviour import Behaving
from quilt_mcp.commands.demo.moto_gaps.refusals import Sender

MAX_PAGE = 100
JSON = dict[str, object]


class GlueAnswers(Behaving, GlueResponse):
    """Glue, with the responses of AWS."""

    def get_databases(self) -> ActionResult:
        """Respond to GetDatabases."""
        return self._page("DatabaseList", [one.as_dict() for one in self.glue_backend.get_databases()])

    def get_tables(self) -> ActionResult:
        """Respond to GetTables."""
        expression = self.parameters.get("Expression")
        tables = self.glue_backend.get_tables(self.parameters["DatabaseName"], expression)
        return self._page("TableList", [one.as_dict() for one in tables])

    def _determine_resource(self) -> str:
        return self._list_arns()[0]

    def _authenticate_and_authorize_normal_action(self, resource: str = "*") -> None:
        super()._authenticate_and_authorize_normal_action(resource)
        sender = Sender.of_request(self.current_account, self.headers)
        refusal = find_refusal(sender, self._get_action(), self._list_arns()[1:])
        if refusal:
            raise JsonRESTError("AccessDeniedException", refusal)

    def _list_arns(self) -> list[str]:
        return list_arns(self.region, self.current_account, self._get_action(), self.parameters)

    def _page(self, key: str, items: Sequence[JSON]) -> ActionResult:
        size = int(self.parameters.get("MaxResults") or MAX_PAGE)
        start = int(self.parameters.get("NextToken") or 0)
        if size > MAX_PAGE:
            raise JsonRESTError("InvalidInputException", f"MaxResults is more than {MAX_PAGE}")
        end = start + size
        page: JSON = {key: sorted(items, key=lambda item: str(item["Name"]))[start:end]}
        token = self.behaviour.make_page_token(end, len(items))
        return ActionResult(page if token is None else {**page, "NextToken": token})


def list_arns(region: str, account: str, action: str, parameters: Mapping[str, object]) -> list[str]:
    """Return the resources that an action needs rights on: the data catalog first."""
    start = f"arn:aws:glue:{region}:{account}"
    database = parameters.get("DatabaseName") or parameters.get("Name")
    databases = {"GetDatabases": "*", "GetDatabase": database, "GetTables": database, "GetTable": database}
    tables = {"GetTables": "*", "GetTable": parameters.get("Name")}
    return [
        f"{start}:catalog",
        *([f"{start}:database/{databases[action]}"] if action in databases else []),
        *([f"{start}:table/{database}/{tables[action]}"] if action in tables else []),
    ]


def find_refusal(sender: Sender, action: str, arns: Sequence[str]) -> str | None:
    """Return the refusal by the first resource that the sender has no rights on; None if it has them on all."""
    refusals = (sender.explain_refusal(f"glue:{action}", arn) for arn in arns)
    return next((refusal for refusal in refusals if refusal), None)
