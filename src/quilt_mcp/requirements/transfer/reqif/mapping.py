"""The mapping of a ReqIF file: which attributes of each type have the fields of records.

A field is found by its name. If no object of a type has a text with a known name, its text is in the attribute with the
most text. The user can name others, and the database keeps what is not found by name for the next file of its source.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from quilt_mcp.requirements.transfer.records import shorten
from quilt_mcp.requirements.transfer.reqif.names import CHAPTERS, MAPPED, REFERENCES, Names, choose
from quilt_mcp.requirements.transfer.sources import Chosen

MOST_EXAMPLES = 3
_MOST_TYPES = 1000
"""The maximum number of types whose mapping is kept. A file can have one for each object."""
_MOST_ATTRIBUTES = 10_000
"""The maximum number of attributes of a type among which a text is found."""


@dataclass
class Mapped:
    """What was found in the objects of one type.

    Attributes:
        name: of the type.
        count: the number of its objects.
        fields: the attributes that had a field.
        examples: the first titles.
    """

    name: str
    count: int = 0
    fields: dict[str, str] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)


@dataclass
class Mapper:
    """Finds the attributes of each type.

    Attributes:
        given: the attributes that the user names, for all types that have them.
        chosen: what is not found by name.
        used: what was found, by the name of the type.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    chosen: Chosen = field(default_factory=dict)
    used: dict[str, Mapped] = field(default_factory=dict)
    _attributes: dict[str, dict[str, str]] = field(default_factory=dict)  # as they are written, by lower case, by type
    _amounts: dict[str, Counter[str]] = field(default_factory=dict)
    _names: dict[str, Names] = field(default_factory=dict)

    def names_for(self, type_name: str) -> Names:
        if type_name not in self._names:
            own = {name: (attribute.casefold(),) for name, attribute in self.chosen.get(type_name, {}).items()}
            self._names[type_name] = Names({**MAPPED, **own})
        return self._names[type_name]

    def note(self, type_name: str, values: Iterable[tuple[str, str]], texts: set[str]) -> None:
        """Note what an object of a type has."""
        if type_name not in self._amounts and len(self._amounts) >= _MOST_TYPES:
            return
        amounts = self._amounts.setdefault(type_name, Counter())
        attributes = self._attributes.setdefault(type_name, {})
        for name, value in values:
            if len(attributes) < _MOST_ATTRIBUTES:
                attributes.setdefault(name.casefold(), name)
            if name.casefold() in texts and name.casefold() in attributes:
                amounts[name.casefold()] += len(value)

    def choose(self, kept: Chosen) -> bool:
        """Choose the attributes of each type. Return whether some are not found by their names.

        Args:
            kept: what was chosen for earlier files of the source.
        """
        self.chosen = dict(kept)
        for type_name, amounts in self._amounts.items():
            attributes = self._attributes[type_name]
            own = {name: one for name, one in kept.get(type_name, {}).items() if one.casefold() in attributes}
            own |= {
                name: attributes[one.casefold()] for name, one in self.given.items() if one.casefold() in attributes
            }
            taken = {one.casefold() for one in own.values()}
            if "text" not in own and not any(amounts[name] for name in MAPPED["text"]):
                known = {*CHAPTERS, *REFERENCES, *taken, *(name for names in MAPPED.values() for name in names)}
                rest = {name: amount for name, amount in amounts.items() if name not in known and amount}
                if rest:
                    own["text"] = attributes[max(rest, key=rest.__getitem__)]
            if own:
                self.chosen[type_name] = own
        self._names.clear()
        return bool(self.chosen)

    def find_unknown(self) -> Iterable[str]:
        """Return what is wrong with the attributes that the user names."""
        known = {key: name for attributes in self._attributes.values() for key, name in attributes.items()}
        for name, attribute in self.given.items():
            if name not in MAPPED:
                yield f"--map has no field {shorten(name)!r}. Use one of: {', '.join(MAPPED)}."
            elif attribute.casefold() not in known:
                near = "".join(
                    f" Did you mean {known[one]}?" for one in get_close_matches(attribute.casefold(), known, 1)
                )
                shown = ", ".join(shorten(one) for one in list(known.values())[:20])
                yield f"No object has the attribute {shorten(attribute)!r} of --map {name}.{near} Use one of: {shown}."

    def count(self, type_name: str, title: str, named: Mapping[str, str]) -> None:
        """Count an object, with the attributes that have its fields."""
        if type_name not in self.used and len(self.used) >= _MOST_TYPES:
            return
        mapped = self.used.setdefault(type_name, Mapped(type_name))
        mapped.count += 1
        names = self.names_for(type_name)
        for name, own in {**names.fields, "title": names.titles}.items():
            if found := choose(own, named):
                mapped.fields.setdefault(name, self._attributes.get(type_name, {}).get(found, found))
        if len(mapped.examples) < MOST_EXAMPLES:
            mapped.examples.append(shorten(title))
