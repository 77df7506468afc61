"""quilt://search: how to write a query for quilt://search/{query}, from Quilt's public documentation of its search."""

from copy import deepcopy

from typing_extensions import TypedDict


class SyntaxRow(TypedDict):
    """One element of the syntax."""

    form: str
    """How it is written."""
    meaning: str
    """What it finds."""


class FieldRow(TypedDict):
    """A field that a query can name, as `field:value`."""

    field: str
    """Its name."""
    meaning: str
    """What it contains."""


class SearchExample(TypedDict):
    """A query, with the text as a URI needs it."""

    question: str
    """What it finds."""
    uri: str
    """The URI to read."""


class OtherWay(TypedDict):
    """What the search does not do."""

    want: str
    """What you want."""
    instead: str
    """The URI, or the way, to get it."""


class SearchGuide(TypedDict):
    """How to search.

    Attributes:
        overview: what the search does.
        uri: the template of a search.
        parameters: what each part of the template means, by its name.
        syntax: the elements of a query.
        package_fields: the fields of packages, with `kind=packages`. Stacks from before 2025 have other names for some
            of them: handle, comment, metadata, hash, workflow.id.
        object_fields: the fields of objects, with `kind=objects`.
        characters: how to write special characters.
        examples: searches to start from.
        instead: what the search does not do, and what does.
    """

    overview: str
    uri: str
    parameters: dict[str, str]
    syntax: list[SyntaxRow]
    package_fields: list[FieldRow]
    object_fields: list[FieldRow]
    characters: list[str]
    examples: list[SearchExample]
    instead: list[OtherWay]


GUIDE: SearchGuide = {
    "overview": (
        "A query finds packages, or objects in S3, in the buckets of the stack that you can see. The stack keeps "
        "an index of names, metadata and messages, and of the text in files of some formats, such as CSV, JSON, "
        "Markdown, HTML, notebooks, PDF, Excel and Parquet. Of a large file, only the beginning is in the index. "
        "The index follows S3 with a delay; quilt://buckets/{bucket} says when it was last built."
    ),
    "uri": "quilt://search/{query}{?buckets,kind,cursor,limit}",
    "parameters": {
        "query": "What to find: words, or the syntax of Elasticsearch's query strings, percent-encoded.",
        "buckets": "The names of the buckets to search, with commas between them. By default, all that you see.",
        "kind": "`packages`, which is the default, or `objects`. One search finds one of the two.",
        "cursor": "The `next_cursor` of a page, to read the next one. The other parameters stay the same.",
        "limit": "The number of rows per page, from 1 to 200. By default, 50.",
    },
    "syntax": [
        {"form": "word", "meaning": "the word, in any field"},
        {"form": '"two words"', "meaning": "the words in this order"},
        {"form": "a AND b", "meaning": "both. Write the operator: two words without one can mean AND or OR"},
        {"form": "a OR b", "meaning": "one of them"},
        {"form": "NOT a", "meaning": "all but a. Combine it: a NOT b"},
        {"form": "(a OR b) AND c", "meaning": "groups"},
        {"form": "field:value", "meaning": "the value in this field"},
        {"form": 'field:"two words"', "meaning": "the words in this field, in this order"},
        {"form": "_exists_:field", "meaning": "what has the field"},
        {"form": "run*", "meaning": "any characters, or none. Slow at the start of a word"},
        {"form": "run?", "meaning": "exactly one character"},
        {"form": "/run[0-9]+/", "meaning": "a regular expression. Slow"},
        {"form": "size:>=4096", "meaning": "a number: also >, <, <="},
        {"form": "last_modified:[2025-01-01 TO 2025-03-31]", "meaning": "a range, with both ends"},
    ],
    "package_fields": [
        {"field": "ptr_name", "meaning": "the whole name, namespace/name; ptr_name.text has its words"},
        {"field": "ptr_last_modified", "meaning": "when the revision was made"},
        {"field": "mnfst_message", "meaning": "the message of the revision"},
        {"field": "mnfst_metadata", "meaning": "the metadata of the package, as text"},
        {"field": "mnfst_hash", "meaning": "the top hash"},
        {"field": "mnfst_workflow.id", "meaning": "the workflow that the push passed"},
        {"field": "mnfst_stats.total_files", "meaning": "the number of files"},
        {"field": "mnfst_stats.total_bytes", "meaning": "the size in bytes"},
        {"field": "entry_lk", "meaning": "the path of a file in the package; entry_lk.text has its words"},
        {"field": "entry_pk", "meaning": "where a file is in S3; entry_pk.text has its words"},
        {"field": "entry_size", "meaning": "the size of a file in bytes"},
        {"field": "entry_metadata", "meaning": "the metadata of a file, as text"},
    ],
    "object_fields": [
        {"field": "key", "meaning": "the whole key; key_text has its words"},
        {"field": "ext", "meaning": "the extension, such as *.csv"},
        {"field": "content", "meaning": "the text in the file"},
        {"field": "size", "meaning": "the size in bytes"},
        {"field": "last_modified", "meaning": "when it was last modified"},
        {"field": "version_id", "meaning": "the version in S3"},
    ],
    "characters": [
        "In the URI, percent-encode the query: %20 for a space, %22 for a quotation mark, %2F for a slash.",
        'In the query, these characters have a meaning: + - = & | > < ! ( ) { } [ ] ^ " ~ * ? : \\ /',
        "To find one of them, write a backslash before it. < and > cannot be found: leave them out.",
    ],
    "examples": [
        {"question": "Packages with a word anywhere", "uri": "quilt://search/counts"},
        {"question": "Packages with a phrase", "uri": "quilt://search/%22gene%20counts%22"},
        {"question": "Packages with two words", "uri": "quilt://search/lane%20AND%20novaseq"},
        {
            "question": "Packages with one word, but not with the other",
            "uri": "quilt://search/counts%20NOT%20liver",
        },
        {"question": "Packages whose name begins so", "uri": "quilt://search/ptr_name%3Arnaseq*"},
        {"question": "Packages with a value in their metadata", "uri": "quilt://search/mnfst_metadata%3Anovaseq*"},
        {"question": "Objects with an extension", "uri": "quilt://search/ext%3A*.csv?kind=objects"},
        {
            "question": "Large objects with a word, one per page",
            "uri": "quilt://search/liver%20AND%20size%3A%3E%3D100?kind=objects&limit=1",
        },
    ],
    "instead": [
        {"want": "the buckets", "instead": "quilt://buckets"},
        {"want": "what a bucket is, and its folders", "instead": "quilt://buckets/{bucket}"},
        {"want": "all packages of a bucket, or the newest", "instead": "quilt://buckets/{bucket}/packages"},
        {"want": "all objects of a bucket, or of a folder", "instead": "quilt://buckets/{bucket}/objects"},
        {
            "want": "older revisions of a package",
            "instead": "quilt://buckets/{bucket}/packages/{namespace}/{name}/revisions",
        },
        {"want": "sums, joins and all rows", "instead": "SQL in Athena: athena://workgroups says where"},
    ],
}


async def search_guide_get() -> SearchGuide:
    """How to search: syntax, fields, examples.

    It also says what the search does not do, and which URI does. It is a text of this server, and asks no stack.
    """
    return deepcopy(GUIDE)
