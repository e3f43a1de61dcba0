"""What was asked is not well formed: options, names, filters, schemas."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph_spark.errors.base import OmnigraphError, hint, known_names


@dataclass(eq=False)
class OptionError(OmnigraphError, ValueError):
    """An option or argument is wrong; base of the errors that say how."""

    code = "OMNIGRAPH_OPTION"
    remedy = "See the options tables."


@dataclass(eq=False)
class MissingOptionError(OptionError):
    """A required option was not given."""

    code = "OMNIGRAPH_OPTION_MISSING"
    remedy = "Give the option the message names."
    option: str
    advice: str = ""

    def describe(self) -> str:
        text = f"option {self.option!r} is required"
        return f"{text}: {self.advice}" if self.advice else text


@dataclass(eq=False)
class InvalidOptionError(OptionError):
    """An option has a value it does not accept."""

    code = "OMNIGRAPH_OPTION_INVALID"
    remedy = "Give a value of the kind the message names."
    option: str
    value: str
    expected: str

    def describe(self) -> str:
        return f"option {self.option!r} is {self.value!r}; expected {self.expected}"


@dataclass(eq=False)
class UnknownOptionError(OptionError):
    """There is no option of that name."""

    code = "OMNIGRAPH_OPTION_UNKNOWN"
    remedy = "Check the spelling; object-store settings go under `storage.`."
    option: str
    known: tuple[str, ...] = ()

    def describe(self) -> str:
        return f"unknown option {self.option!r}{hint(self.option, self.known)}"


@dataclass(eq=False)
class ConflictingOptionsError(OptionError):
    """Two options contradict each other."""

    code = "OMNIGRAPH_OPTION_CONFLICT"
    remedy = "Keep one of the options the message names."
    options: tuple[str, ...]
    rule: str

    def describe(self) -> str:
        return f"options {' and '.join(map(repr, self.options))} cannot be combined: {self.rule}"


@dataclass(eq=False)
class InvalidNameError(OptionError):
    """A type, branch or commit name is not well formed."""

    code = "OMNIGRAPH_NAME_INVALID"
    remedy = "Follow the rule the message states."
    what: str
    name: str
    rule: str

    def describe(self) -> str:
        return f"{self.name!r} is not a valid {self.what}: {self.rule}"


@dataclass(eq=False)
class InvalidFilterError(OptionError):
    """The `where` text is not a condition on this type's columns."""

    code = "OMNIGRAPH_FILTER_INVALID"
    remedy = "Write a SQL condition: names bare or in backticks, text in single quotes."
    filter: str
    reason: str

    def describe(self) -> str:
        return f"filter {self.filter!r} cannot be evaluated: {self.reason}"


@dataclass(eq=False)
class SchemaError(OmnigraphError, ValueError):
    """A schema is wrong; base of the errors that say how."""

    code = "OMNIGRAPH_SCHEMA"
    remedy = "Correct the schema as the message says."


@dataclass(eq=False)
class SchemaSyntaxError(SchemaError):
    """The schema text does not follow the grammar."""

    code = "OMNIGRAPH_SCHEMA_SYNTAX"
    remedy = "Correct the text at the line and column given."
    line: int
    column: int
    found: str
    expected: tuple[str, ...] = ()

    def describe(self) -> str:
        place = f"line {self.line}, column {self.column}: unexpected {self.found}"
        return f"{place}; expected {known_names(self.expected)}" if self.expected else place


@dataclass(eq=False)
class SchemaRuleError(SchemaError):
    """The schema text is well formed but breaks a rule of the language."""

    code = "OMNIGRAPH_SCHEMA_RULE"
    remedy = "Change the declaration the message names."
    subject: str
    rule: str
    line: int | None = None
    column: int | None = None

    def describe(self) -> str:
        place = f"line {self.line}, column {self.column}: " if self.line is not None else ""
        return f"{place}{self.subject}: {self.rule}"


@dataclass(eq=False)
class SchemaMismatchError(SchemaError):
    """The columns asked for do not fit the type's schema."""

    code = "OMNIGRAPH_SCHEMA_MISMATCH"
    remedy = "Leave the schema out, or name the columns with the types the message states."
    type: str
    column: str
    given: str
    actual: str

    def describe(self) -> str:
        return (
            f"column {self.column!r} of {self.type} was given as {self.given} but is {self.actual}"
        )
