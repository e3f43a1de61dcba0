"""Rules about annotations: what may stand where, how often, with which value."""

from __future__ import annotations

from omnigraph_spark.errors.base import hint
from omnigraph_spark.schema.declarations import (
    Declarations,
    DeclaredAnnotation,
    DeclaredEdge,
    DeclaredEntity,
    DeclaredProperty,
    refuse,
)
from omnigraph_spark.schema.model import PropertyType, Scalar

#: What the engine takes for blank: Unicode's White_Space. `str.strip` would add four separators.
_BLANK = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_TEXTS = ("description", "instruction")
_ON_PROPERTIES = ("key", "unique", "index", "embed")


def check_annotations(declared: Declarations) -> None:
    """Check the annotations of nodes and edges; an interface's count where they are inherited."""
    for entity in declared.entities():
        for given in entity.annotations:
            if given.annotation.name in _ON_PROPERTIES:
                rule = f"@{given.annotation.name} belongs to a property, not to a type"
                refuse(entity, rule, given.place)
        _check_texts(entity, entity.annotations)
        for prop in entity.properties:
            _check_property(entity, prop)


def _check_texts(subject: object, annotations: tuple[DeclaredAnnotation, ...]) -> None:
    seen = set()
    for given in annotations:
        name, value = given.annotation.name, given.annotation.value
        if name not in _TEXTS:
            continue
        if name in seen:
            refuse(subject, f"@{name} may stand only once", given.place)
        if value is None or not value.strip(_BLANK):
            refuse(subject, f"@{name} needs a text that is not empty", given.place)
        seen.add(name)


def _check_property(owner: DeclaredEntity, prop: DeclaredProperty) -> None:
    subject = f"property {owner.name}.{prop.name}"
    forbidden = _forbidden(prop.type, of_edge=isinstance(owner, DeclaredEdge))
    seen = set()
    for given in prop.annotations:
        name = given.annotation.name
        if name in forbidden:
            refuse(subject, f"@{name} cannot stand on {forbidden[name]}", given.place)
        if name in _ON_PROPERTIES and name in seen:
            refuse(subject, f"@{name} may stand only once", given.place)
        seen.add(name)
        if name == "embed":
            _check_embed(subject, owner, prop, given)
    _check_texts(subject, prop.annotations)


def _forbidden(kind: PropertyType, *, of_edge: bool) -> dict[str, str]:
    """Map annotation names to what they cannot stand on, among the things this property is."""
    forbidden = {"instruction": "a property"}
    if of_edge:
        forbidden |= dict.fromkeys(("key", "embed"), "a property of an edge")
    if kind.scalar is Scalar.VECTOR:
        forbidden |= dict.fromkeys(("key", "unique"), "a vector")
    if kind.scalar is Scalar.BLOB:
        forbidden |= dict.fromkeys(_ON_PROPERTIES, "a blob")
    if kind.list:
        forbidden |= dict.fromkeys(_ON_PROPERTIES, "a list")
    return forbidden


def _check_embed(
    subject: str, owner: DeclaredEntity, prop: DeclaredProperty, given: DeclaredAnnotation
) -> None:
    if prop.type.scalar is not Scalar.VECTOR:
        refuse(subject, f"@embed needs a Vector, and this is {prop.type}", given.place)
    properties = {other.name: other.type for other in owner.properties}
    source = given.annotation.value
    if source is None:
        refuse(subject, '@embed needs the property to embed, as in @embed("title")', given.place)
    if source not in properties:
        rule = f"@embed names {source!r}, which {owner} does not have"
        refuse(subject, f"{rule}{hint(source, tuple(properties))}", given.place)
    if properties[source].list or properties[source].scalar is not Scalar.STRING:
        rule = f"@embed needs a String, and {source!r} is {properties[source]}"
        refuse(subject, rule, given.place)
    for key, _ in given.annotation.kwargs:
        if key != "model":
            refuse(subject, f"@embed knows the argument 'model', not {key!r}", given.place)
