"""`get_resource`, and the names that belong to it. Promised to Python callers at this place."""

from quilt_mcp.app import current_app
from quilt_mcp.core.answers import GetResourceError, GetResourceSuccess
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.core.registry import ResourceDefinition, validate_registry
from quilt_mcp.resources import RESOURCE_REGISTRY
from quilt_mcp.server import create_manager

__all__ = ["RESOURCE_REGISTRY", "ResourceDefinition", "ResourceManager", "get_resource", "validate_registry"]


async def get_resource(uri: str | None = None) -> GetResourceSuccess | GetResourceError:
    """Read any resource of this server, or list all of them.

    This function is the Python form of the tool ``get_resource``, for MCP clients with a model that can only call
    tools, such as Claude Desktop and Cursor. It calls the same manager as ``resources/read``, so data, errors and
    authorization are the same. The tool can be retired when the model of every client reads resources.

    **Discovery.** Without a URI (``None`` or ``""``), the answer lists the resources of each category, with their
    names, descriptions and variables:

    .. code-block:: python

        listing = await get_resource()
        listing.data["auth"][0].uri  # 'auth://catalog/info'

    **Reading.** With a URI, the answer has the data of that resource:

    .. code-block:: python

        answer = await get_resource("auth://status")
        answer.data["status"]  # such as 'authenticated' or 'not_configured'

    **Templates.** Replace each ``{variable}`` of a URI with a value: 1 to 128 characters of ``A-Z a-z 0-9 . _ ~ -``.
    ``{query}``, ``{database}`` and ``{table}`` can be any text, percent-encoded. ``{?parameters}`` are optional:
    ``requirements://epics?limit=10``. Lists take ``limit``, and as ``cursor`` the ``next_cursor`` of the previous page.

    .. code-block:: python

        answer = await get_resource("metadata://templates/standard")
        answer.data["package_type"]  # 'data'

    **Errors.** A failure is returned and not raised. It says what happened and what to do next:

    .. code-block:: python

        answer = await get_resource("auth://statsu")
        if not answer["success"]:
            answer["error"]  # 'InvalidURI'
            answer["suggested_actions"]  # ['Did you mean auth://status?', ...]

    URIs must match exactly, including case: ``auth/status`` is not ``auth://status``. Resources marked (admin) are for
    administrators of the stack.

    The resources, by scheme:

    - auth: Login, catalog, and the local directories that Quilt writes to.
      ``auth://status``, ``auth://catalog/info``, ``auth://filesystem/status``
    - athena: Athena databases, tables, workgroups and query history, and which workgroup to use.
      ``athena://databases``, ``athena://workgroups``, ``athena://query/history``,
      ``athena://query/{execution_id}/results{?cursor,limit}``,
      ``athena://databases/{database}/tables{?cursor,limit}``,
      ``athena://databases/{database}/tables/{table}{?cursor,limit}``
    - admin: Users, roles and configuration of the stack.
      ``admin://users`` (admin), ``admin://api-keys`` (admin), ``admin://roles`` (admin), ``admin://config/sso``
      (admin), ``admin://config/tabulator`` (admin)
    - metadata: Templates, examples and help for package metadata.
      ``metadata://templates``, ``metadata://examples``, ``metadata://troubleshooting``,
      ``metadata://templates/{template}``, ``metadata://workflows/{bucket}``
    - permissions: Your access to each bucket, with evidence, and which buckets to create packages in.
      ``permissions://discover``, ``permissions://recommendations``, ``permissions://buckets/{bucket}/access``
    - tabulator: Buckets with tabulator tables, and the tables with their columns.
      ``tabulator://buckets``, ``tabulator://buckets/{bucket}/tables{?cursor,limit}``
    - quilt: Buckets of the stack, their packages, and search.
      ``quilt://buckets{?cursor,limit}``, ``quilt://buckets/{bucket}``,
      ``quilt://buckets/{bucket}/packages{?filter,order,cursor,limit}``,
      ``quilt://buckets/{bucket}/objects{?prefix,cursor,limit}``,
      ``quilt://buckets/{bucket}/object{?key,version,cursor,limit}``,
      ``quilt://buckets/{bucket}/packages/{namespace}/{name}{?revision}``,
      ``quilt://buckets/{bucket}/packages/{namespace}/{name}/revisions{?cursor,limit}``,
      ``quilt://buckets/{bucket}/packages/{namespace}/{name}/changes{?from,to,cursor,limit}``,
      ``quilt://buckets/{bucket}/packages/{namespace}/{name}/contents{?path,revision,cursor,limit}``,
      ``quilt://search``, ``quilt://search/{query}{?buckets,kind,cursor,limit}``
    - workflow: Workflows written by the workflow tools.
      ``workflow://workflows``, ``workflow://workflows/{workflow_id}/status``
    - requirements: Epics, user stories, requirements and acceptance criteria, with search.
      ``requirements://epics{?status,priority,assignee,project,updated_since,created_since,sort,view,cursor,limit}``,
      ``requirements://user-stories{?status,priority,assignee,project,updated_since,created_since,sort,view,cursor,limit}``,
      ``requirements://requirements{?status,priority,assignee,type,project,updated_since,created_since,sort,view,cursor,limit}``,
      ``requirements://acceptance-criteria{?project,updated_since,created_since,sort,view,cursor,limit}``,
      ``requirements://requirements-types{?cursor,limit}``, ``requirements://epics/{id}``,
      ``requirements://user-stories/{id}``, ``requirements://requirements/{id}``,
      ``requirements://acceptance-criteria/{id}``, ``requirements://epics/{id}/hierarchy{?view,cursor,limit}``,
      ``requirements://epics/{id}/user-stories{?status,priority,assignee,updated_since,created_since,sort,view,cursor,limit}``,
      ``requirements://user-stories/{id}/requirements{?status,priority,assignee,type,updated_since,created_since,sort,view,cursor,limit}``,
      ``requirements://user-stories/{id}/acceptance-criteria{?updated_since,created_since,sort,view,cursor,limit}``,
      ``requirements://requirements/{id}/relationships{?cursor,limit}``,
      ``requirements://search/{query}{?kind,status,priority,assignee,type,project,epic,updated_since,view,cursor,limit}``,
      ``requirements://changes{?since,project,kind,cursor,limit}``, ``requirements://summary{?group,project,epic}``,
      ``requirements://relationships{?type,project,epic,cursor,limit}``, ``requirements://projects{?cursor,limit}``,
      ``requirements://projects/{project}/members{?cursor,limit}``,
      ``requirements://epics/{id}/trace{?depth,cursor,limit}``,
      ``requirements://user-stories/{id}/trace{?depth,cursor,limit}``,
      ``requirements://requirements/{id}/trace{?depth,cursor,limit}``,
      ``requirements://acceptance-criteria/{id}/trace{?depth,cursor,limit}``,
      ``requirements://coverage{?epic,project,category,cursor,limit}``
    - config: Rules for analysed code, and settings of this server.
      ``config://security``, ``config://server``
    - info: Everything that this server offers.
      ``info://capabilities``

    Args:
        uri: The URI of a resource, with values in place of its variables. ``None`` or ``""`` lists all resources.

    Returns:
        A ``GetResourceSuccess`` or a ``GetResourceError``. Their fields can be read as attributes and as items.

        ``GetResourceSuccess``:

        - ``success``: ``True``
        - ``uri``: the URI that was read; ``""`` for discovery
        - ``resource_name``: the name of the resource, for a person
        - ``data``: the object that ``resources/read`` returns as JSON text; for discovery, the ``ResourceMetadata`` of
          each category
        - ``timestamp``: when the data was read, in UTC
        - ``mime_type``: ``"application/json"``

        ``GetResourceError``:

        - ``success``: ``False``
        - ``uri``: the URI that was requested
        - ``error``: ``InvalidURI``, ``MissingTemplateVariable``, ``InvalidTemplateVariable``, ``Unauthorized``,
          ``NotFound`` or ``ResourceExecutionError``
        - ``message``: what happened
        - ``details``: technical detail, or ``None``; for ``Unauthorized`` it starts with the reason, such as
          ``not signed in``, ``needs admin``, ``refused by AWS`` or ``refused by the stack``
        - ``suggested_actions``: what to do next; never empty
        - ``transient``: ``True`` if the same call can succeed later without anyone changing anything
        - ``valid_uris``: all URIs, for ``InvalidURI``; otherwise ``None``
        - ``retry_after_seconds``: when to repeat the call, if the caller exceeded a limit; otherwise ``None``
    """
    return await current_app().once(create_manager).respond(uri, surface="python")
