"""Applies interfaces: a node gets the properties it does not declare and must agree on the others.

Also turns `@key`, `@unique` and `@index` on a property into the constraints they stand for, after
inheritance, so that an inherited `@key` counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from omnigraph_spark.errors.base import hint
from omnigraph_spark.schema.declarations import (
    Declarations,
    DeclaredConstraint,
    DeclaredEdge,
    DeclaredInterface,
    DeclaredNode,
    DeclaredProperty,
    refuse,
)
from omnigraph_spark.schema.model import COLUMNS_CONSTRAINTS, Annotation, Constraint

_Entity = TypeVar("_Entity", DeclaredNode, DeclaredEdge)


def apply_interfaces(declared: Declarations) -> Declarations:
    """Return the declarations with every property and constraint of every type spelled out."""
    interfaces = {interface.name: interface for interface in declared.interfaces}
    return Declarations(
        declared.interfaces,
        tuple(_spelled_out(_inherit(node, interfaces)) for node in declared.nodes),
        tuple(map(_spelled_out, declared.edges)),
    )


def constraint_of(annotation: Annotation, column: str) -> Constraint | None:
    """Return the constraint that an annotation of a property stands for, if it is one."""
    short_form = COLUMNS_CONSTRAINTS.get(annotation.name) if annotation.value is None else None
    return short_form((column,)) if short_form else None


def _inherit(node: DeclaredNode, interfaces: dict[str, DeclaredInterface]) -> DeclaredNode:
    properties = {prop.name: prop for prop in node.properties}
    for reference in node.implements:
        interface = interfaces.get(reference.name)
        if interface is None:
            known = tuple(interfaces)
            rule = f"there is no interface {reference.name!r}{hint(reference.name, known)}"
            refuse(node, rule, reference.place)
        for inherited in interface.properties:
            _check_agreement(
                node, properties.setdefault(inherited.name, inherited), inherited, interface
            )
    return replace(node, properties=tuple(properties.values()))


def _check_agreement(
    node: DeclaredNode,
    own: DeclaredProperty,
    inherited: DeclaredProperty,
    interface: DeclaredInterface,
) -> None:
    if own.type != inherited.type:
        rule = f"it is {own.type} here, but {interface} declares it as {inherited.type}"
        refuse(f"property {node.name}.{own.name}", rule, own.place)


def _spelled_out(entity: _Entity) -> _Entity:
    implied: list[DeclaredConstraint] = [
        DeclaredConstraint(constraint, declared.place)
        for prop in entity.properties
        for declared in prop.annotations
        if (constraint := constraint_of(declared.annotation, prop.name))
    ]
    return replace(entity, constraints=(*entity.constraints, *implied))
