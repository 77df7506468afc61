"""The dispatcher's Python face: `get_resource`, bound to the server's registry."""

from quilt_mcp.manager import ResourceManager
from quilt_mcp.models.responses import GetResourceError, GetResourceSuccess
from quilt_mcp.registry import ResourceDefinition, validate_registry
from quilt_mcp.resources import MANAGER, RESOURCE_REGISTRY

__all__ = ["RESOURCE_REGISTRY", "ResourceDefinition", "ResourceManager", "get_resource", "validate_registry"]


async def get_resource(uri: str | None = None) -> GetResourceSuccess | GetResourceError:
    """Read any resource of this server, or list them all.

    This is the compatibility layer for MCP clients whose model can use tools only, such as Claude Desktop and Cursor:
    what they cannot read with the protocol's ``resources/read`` they get from the tool ``get_resource``, which this
    function is the Python face of. Both ask the same manager, so the data, the errors and the authorization are the
    same. When every client reads resources by itself, this tool may be retired in favour of that.

    **Discovery.** Without a URI (``None`` or ``""``) the answer lists every resource by category, with its name,
    description, template variables and whether only administrators may read it:

    .. code-block:: python

        listing = await get_resource()
        listing.data["auth"][0].uri  # 'auth://catalog/info'

    **Reading.** With a URI the answer holds that resource's data:

    .. code-block:: python

        answer = await get_resource("auth://status")
        answer.data["status"]  # such as 'authenticated' or 'not_configured'

    **Templates.** A URI with ``{variables}`` wants a value in place of each. A value is 1 to 128 characters of
    ``A-Z a-z 0-9 . _ ~ -``; others cannot be values, not even percent-encoded, but in ``{query}``, which is any text.
    ``{?parameters}`` are optional: ``requirements://epics?limit=10``.

    .. code-block:: python

        answer = await get_resource("metadata://templates/standard")
        answer.data["package_type"]  # 'data'

    **Errors.** A failure is an answer, never an exception. It says what happened and what to do about it:

    .. code-block:: python

        answer = await get_resource("auth://statsu")
        if not answer["success"]:
            answer["error"]  # 'InvalidURI'
            answer["suggested_actions"]  # ['Did you mean auth://status ...?', ...]

    URIs are matched exactly: case counts, and ``auth/status`` is not ``auth://status``.

    Resources, by category (those marked *admin* are for administrators of the stack):

    - auth: who is signed in, and where this machine lets Quilt write

      - ``auth://status``
      - ``auth://catalog/info``
      - ``auth://filesystem/status``

    - athena: what can be queried, and what was

      - ``athena://databases``
      - ``athena://workgroups``
      - ``athena://query/history``

    - admin: users, roles and settings of the stack

      - ``admin://users`` (*admin*)
      - ``admin://roles`` (*admin*)
      - ``admin://config/sso`` (*admin*)
      - ``admin://config/tabulator`` (*admin*)

    - metadata: templates and help for the metadata of packages

      - ``metadata://templates``
      - ``metadata://examples``
      - ``metadata://troubleshooting``
      - ``metadata://templates/{template}``

    - permissions: what you may do in which bucket

      - ``permissions://discover``
      - ``permissions://recommendations``

    - tabulator: buckets with tabulator tables

      - ``tabulator://buckets``

    - workflow: workflows that the workflow tools keep

      - ``workflow://workflows``
      - ``workflow://workflows/{workflow_id}/status``

    - requirements: epics, user stories, requirements and acceptance criteria; ``{id}`` is a UUID or such as ``EP-001``,
      and lists take ``?limit=`` and the ``?cursor=`` that the page before gave as ``next_cursor``

      - ``requirements://epics{?cursor,limit}``
      - ``requirements://epics/{id}``
      - ``requirements://epics/{id}/hierarchy``
      - ``requirements://epics/{id}/user-stories{?cursor,limit}``
      - ``requirements://user-stories{?cursor,limit}``
      - ``requirements://user-stories/{id}``
      - ``requirements://user-stories/{id}/requirements{?cursor,limit}``
      - ``requirements://user-stories/{id}/acceptance-criteria{?cursor,limit}``
      - ``requirements://requirements{?cursor,limit}``
      - ``requirements://requirements/{id}``
      - ``requirements://requirements/{id}/relationships``
      - ``requirements://acceptance-criteria{?cursor,limit}``
      - ``requirements://acceptance-criteria/{id}``
      - ``requirements://requirements-types{?cursor,limit}``
      - ``requirements://search/{query}{?cursor,limit}``

    - config, info: the rules for code that is analysed here, this server's settings, and all that it offers you

      - ``config://security``
      - ``config://server``
      - ``info://capabilities``

    Args:
        uri: The URI of a resource, with values in place of its variables. ``None`` or ``""`` lists all resources.

    Returns:
        A ``GetResourceSuccess`` or a ``GetResourceError``; their fields are read as attributes or as items.

        ``GetResourceSuccess``:

        - ``success``: ``True``
        - ``uri``: the URI that was read, ``""`` for discovery
        - ``resource_name``: the resource's name, for a person
        - ``data``: the same object that ``resources/read`` answers as JSON text; for discovery, from each category to
          its rows of ``ResourceMetadata``
        - ``timestamp``: when the data was retrieved, in UTC
        - ``mime_type``: ``"application/json"``

        ``GetResourceError``:

        - ``success``: ``False``
        - ``uri``: the URI that was asked for
        - ``error``: ``InvalidURI``, ``MissingTemplateVariable``, ``InvalidTemplateVariable``, ``Unauthorized``,
          ``NotFound`` or ``ResourceExecutionError``
        - ``message``: what happened
        - ``details``: technical detail, or ``None``; for ``Unauthorized`` it begins with ``not signed in``,
          ``needs admin``, ``refused by AWS`` or ``unknown user``
        - ``suggested_actions``: what to do next, never empty
        - ``transient``: whether the same call may succeed later without anyone changing anything
        - ``valid_uris``: for ``InvalidURI``, every URI there is
    """
    return await MANAGER.respond(uri, surface="python")
