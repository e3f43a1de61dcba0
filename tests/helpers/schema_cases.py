"""Schema texts that the engine accepts or refuses, one per form, rule and oddity of the language.

The unit tests pin what we do with them; the interop tests pin that the engine does the same.
"""

from __future__ import annotations

#: Accepted: each compiles, and a graph can be created with it.
GOOD: dict[str, str] = {
    "nothing": "",
    "only comments": "// one\n/* two ** / */",
    "bare types": "interface I {} node A {} edge E: A -> A",
    "any order of declarations": "edge E: A -> A node A implements I {} interface I { a: I32 }",
    "one name in three kinds": "interface A {} node A {} edge A: A -> A",
    "type names that differ in case": "node Ab {} node AB {}",
    "property names that differ in case": "node A { ab: I32 aB: I32 }",
    "every scalar": """
        node A {
            a: String b: Bool c: I32 d: I64 e: U32 f: U64 g: F32 h: F64 i: Date j: DateTime
            k: Blob l: Vector(3) m: enum(z, a, -, 9, _x, A)
        }""",
    "every scalar, nullable": """
        node A {
            a: String? b: Bool? c: I32? d: I64? e: U32? f: U64? g: F32? h: F64? i: Date?
            j: DateTime? k: Blob? l: Vector(3)? m: enum(a) ?
        }""",
    "every list": """
        node A {
            a: [String] b: [Bool]? c: [I32] d: [I64]? e: [U32] f: [U64]? g: [F32] h: [F64]?
            i: [ Date ] j: [ DateTime ] ?
        }""",
    "the largest vector": "node A { v: Vector(2147483647) }",
    "a dimension with leading zeros": "node A { v: Vector(003) }",
    "names of blob children": "node A { data: Blob uri: Blob? item: [I32] }",
    "keywords as property names": (
        "node A { node: I32 edge: I32 enum: I32 implements: I32 true: I32 }"
    ),
    "names of underscores": "node A { _: I32 __a: I32 _B9: I32 }",
    "src and dst on a node": "node A { src: String dst: String }",
    "no blanks at all": "nodeA{a:String@key b:I32?@index@unique}edgeE:A->A@card(0..1)@x{c:I32}",
    "keywords glued to names": "interfaceB{} nodeA implementsB,B{}",
    "a type glued to the next name": "node A { a: Stringb: DateTimec: Date_d: I32 }",
    "comments between all words": (
        "node/*1*/A//2\n{a/*3*/:/*4*/enum/*5*/(/*6*/x/*7*/,//8\ny)/*9*/?/*0*/@/**/index/**/}"
    ),
    "carriage returns": "node A {\r\n  a: I32\r}\r\n// end",
    "annotations of every form": """
        node A @x @y("t") @z(word) @n(007) @f(1.50) @b(true) @k("v", b=1, a="2", c=1.5, d=false) {
            a: I32 @ x ( "t" ) @true @keyring(x) @indexes
        }""",
    "annotations in an odd order": (
        'node A { a: I32 @foo("x") @foo @foo("a") @foo(a, z="1") @foo(a, b="1") @a }'
    ),
    "constraint words without arguments": "node A @range @check { a: I32 @range @check }",
    "the last of two equal keywords": 'node A { a: I32 @foo(x, k="v", k="w", true="z") }',
    "every escape": r'node A { a: String @foo("\" \\ \n \r \t") }',
    "text over lines and scripts": 'node A @foo("one\ntwo é 漢 😀 \x1f \x7f \u2028") {}',
    "description and instruction": (
        'node A @description("d") @instruction(word) { a: I32 @description(5) }'
    ),
    "a key": "node A { a: String @key b: I32 }",
    "a key of a number": "node A { a: I64 @key }",
    "a key of several columns": "node A { b: String a: String @key(b, a) }",
    "columns named twice": "node A { a: String @index(a, a) @unique(a, a) }",
    "constraints said twice": "node A { a: String @index @index(a) @index(a) }",
    "index and unique of several columns": (
        "node A { b: I32 a: I32 @index(b, a) @unique(b, a) @index(a) }"
    ),
    "body constraints that annotations may not": (
        "node A { a: [I32] b: Blob c: Vector(2) @unique(a) @index(a) "
        "@unique(b) @unique(c) @index(c) }"
    ),
    "index on a vector": "node A { v: Vector(3)? @index }",
    "ranges": """
        node A {
            a: F64 b: I32 c: [U64]
            @range(a, 5..1) @range(a, 10..1) @range(a, 1.5..) @range(a, ..3) @range(a, 5..)
            @range(a, 5..0) @range(a, -1..) @range(a, -1.0..3.0) @range(b, -5 .. -1.5)
            @range(c, 0..5)
        }""",
    "bounds around i64": """
        node A {
            a: F64
            @range(a, 9223372036854775807..9223372036854775808)
            @range(a, -9223372036854775808..-9223372036854775809)
            @range(a, 99999999999999999999..) @range(a, 007..) @range(a, -0..-0.0)
        }""",
    "bounds in every notation": """
        node A {
            a: F64
            @range(a, 0.0001..0.00001) @range(a, 0.000012..0.0000099) @range(a, 0.000001..0.0)
            @range(a, 9999999999999998.0..10000000000000000.0) @range(a, 1234567890123456.7..0.1)
            @range(a, 123456789012345680000.0..0.30000000000000004) @range(a, 100.0..4.35)
            @range(a, 10000000000000001.0..) @range(a, 2.0..) @range(a, 10.0..)
        }""",
    "checks": r"""
        node A {
            a: String b: enum(x, y) c: [String]?
            @check(a, "z:z") @check(a, "^\\d+$") @check(a, "z:z") @check(b, "(") @check(c, "")
        }""",
    "arguments that are ignored": r'node A { a: String @check(a, "x", "\q", b, 3.5, true, 1..2) }',
    "names that sort around separators": (
        "node A { a: I32 a0: I32 aa: I32 @range(a, 0..) @range(a0, 0..) @range(aa, 0..) }"
    ),
    "an inherited property": (
        'interface I { a: I32 @key @index @description("d") } node A implements I {}'
    ),
    "a property declared again": (
        "interface I { a: [I32] @key @key } node A implements I { a: [I32] }"
    ),
    "an enum declared again": "interface I { a: enum(a, b) } node A implements I { a: enum(b, a) }",
    "the first of two interfaces": (
        "interface I { a: I32 @key } interface J { a: I32 @unique } node A implements J, I {}"
    ),
    "one interface twice": "interface I { a: I32 @key } node A implements I, I {}",
    "an interface nobody implements": (
        'interface I { a: I32 @description("") @instruction("") @key @embed }'
    ),
    "an embedding": (
        'node A { t: String? v: Vector(3)? @embed(t, model="m") e: enum(a) w: Vector(2) '
        '@embed("e") }'
    ),
    "cardinalities": """
        node A {}
        edge E: A -> A @card(0..1) @x edge F: A -> A @card ( 1 .. ) edge G: A -> A @card(0..0)
        edge H: A->A@card(0001..4294967295) edge I: A -> A @card/*0*/(/*3*/1/*4*/../*5*/2/*6*/)""",
    "card as an annotation": """
        node A @card @card(1) {}
        edge E: A -> A @card edge F: A -> A @card("x", k="y") @card(3) edge G: A -> A @card(1)
        edge H: A -> A @cardinal(1) { a: I32 @card @card(2) }""",
    "constraints of an edge": (
        "node A {} edge E: A -> A { a: I32 @index @unique(src) @index(dst, src, a) }"
    ),
    "blobs and vectors on an edge": "node A {} edge E: A -> A { b: Blob? v: Vector(2)? @index }",
    "names whose hash is zero": "node G22igme {} node A { z4fjfgs: I32 }",
    "renames": 'node A @rename_from("B") @rename_from { a: I32 @rename_from("") }',
}

#: Refused by the grammar, with where and a word of what was expected.
BAD_SYNTAX: dict[str, tuple[str, int, int, str]] = {
    "an unknown declaration": ("nod A {}", 1, 1, "'node'"),
    "a lower-case type": ("node a {}", 1, 6, "a type name that starts in upper case"),
    "an upper-case property": ("node A {\n  B: I32 }", 2, 3, "a name that starts in lower case"),
    "a name of another script": ("node Ä {}", 1, 6, "a type name"),
    "an unknown type": ("node A {\n  a: I32\n  b: string\n}", 3, 6, "a type (String, Bool,"),
    "a type with a tail": ("node A { a: I321: I32 }", 1, 16, "'?'"),
    "a comma between properties": (
        "node A { a: I32, b: I32 }",
        1,
        16,
        "a name that starts in lower",
    ),
    "a missing colon": ("node A { a I32 }", 1, 12, "':'"),
    "a body left open": ("node A { a: I32", 1, 16, "'}'"),
    "a brace too many": ("node A {}}", 1, 10, "the end of the text"),
    "two question marks": ("node A { a: I32?? }", 1, 17, "'}'"),
    "a list of lists": ("node A { a: [[I32]] }", 1, 14, "a type ("),
    "a list of nullables": ("node A { a: [I32?] }", 1, 17, "']'"),
    "a list of vectors": ("node A { a: [Vector(3)] }", 1, 14, "a type ("),
    "a vector without dimension": ("node A { a: Vector }", 1, 20, "'('"),
    "a dimension that is no integer": ("node A { a: Vector(3.0) }", 1, 21, "')'"),
    "an enum without values": ("node A { a: enum() }", 1, 18, "an enum value"),
    "an enum of texts": ('node A { a: enum("x") }', 1, 18, "an enum value"),
    "a comment left open": ("node A {} /* x", 1, 11, "'node'"),
    "a text left open": ('node A @x("y) {}', 1, 11, "a text in quotes"),
    "an unknown escape": ('node A @x("a\n\\q") {}', 2, 1, "\\n"),
    "an escape after a blank": (r'node A @x("a \d") {}', 1, 14, r"\t"),
    "a form feed": ("node A {}\f", 1, 10, "the end of the text"),
    "a byte order mark": ("\ufeffnode A {}", 1, 1, "'node'"),
    "empty parentheses": ("node A @x() {}", 1, 11, "a text in quotes"),
    "a negative value": ("node A @x(-1) {}", 1, 11, "a number"),
    "an upper-case value": ("node A @x(Y) {}", 1, 11, "a name"),
    "a word that starts with true": ("node A @x(trueish) {}", 1, 15, "')'"),
    "a keyword without value before": ('node A @x(k="v") {}', 1, 12, "')'"),
    "a keyword of a bare word": ("node A @x(y, k=v) {}", 1, 16, "a text in quotes"),
    "a trailing comma": ("node A @x(y,) {}", 1, 13, "a name"),
    "annotations after implements": ("interface I {} node A implements I @x {}", 1, 36, "'{'"),
    "an annotation before any property": ("node A { @x a: I32 }", 1, 10, "a constraint"),
    "a constraint outside the body": ("node A @index(a) { a: I32 }", 1, 8, "between the braces"),
    "a constraint in an interface": ("interface I { a: I32 @index(a) }", 1, 22, "'}'"),
    "a constraint of nothing": ("node A { a: I32 @index() }", 1, 24, "a name"),
    "a constraint of a text": ('node A { a: I32 @index("a") }', 1, 24, "a property name"),
    "a constraint of true": ("node A { true: I32 @key(true) }", 1, 25, "a property name"),
    "a constraint of a range": ("node A { a: I32 @unique(a, 1..2) }", 1, 28, "a property name"),
    "a range without bounds": ("node A { a: I32 @range(a) }", 1, 17, "bounds such as"),
    "a range of one number": ("node A { a: I32 @range(a, 5) }", 1, 27, "bounds such as"),
    "a range of a negative number": ("node A { a: I32 @range(a, -5) }", 1, 27, "a range such as"),
    "a range of nothing": ("node A { a: I32 @range(a, ..) }", 1, 29, "a number"),
    "a bound with a plus": ("node A { a: I32 @range(a, +1..) }", 1, 27, "a number"),
    "a bound with an exponent": ("node A { a: F64 @range(a, 1e5..) }", 1, 28, "'..'"),
    "a check without pattern": ("node A { a: String @check(a) }", 1, 20, "a pattern in quotes"),
    "a check of a word": ("node A { a: String @check(a, b) }", 1, 30, "a pattern in quotes"),
    "an edge without colon": ("node A {} edge E A -> A", 1, 18, "':'"),
    "a broken arrow": ("node A {} edge E: A - > A", 1, 21, "'->'"),
    "a cardinality after an annotation": (
        "node A {} edge E: A -> A @x @card(0..1)",
        1,
        29,
        "right after the ends",
    ),
    "a cardinality with a blank": ("node A {} edge E: A -> A @ card(0..1)", 1, 26, "right after"),
    "a cardinality without minimum": ("node A {} edge E: A -> A @card(..1)", 1, 32, "a number"),
    "a fraction as cardinality": (
        "node A {} edge E: A -> A @card(1.5..2)",
        1,
        32,
        "a whole number",
    ),
}

#: Refused by a rule: text, subject, a word of the rule, and where.
BAD_RULES: dict[str, tuple[str, str, str, int, int]] = {
    "a node declared twice": ("node A {}\nnode A {}", "node A", "twice, first on line 1", 2, 6),
    "an edge declared twice": ("node A {} edge E: A -> A edge E: A -> A", "edge E", "twice", 1, 31),
    "an interface declared twice": ("interface I {} interface I {}", "interface I", "twice", 1, 26),
    "a property declared twice": ("node A { a: I32 a: I32 }", "property A.a", "twice", 1, 17),
    "an interface property declared twice": (
        "interface I { a: I32 a: I32 }",
        "property I.a",
        "twice",
        1,
        22,
    ),
    "type ids that collide": (
        "node A {} node P6ub {} edge Mdk8: A -> A",
        "edge Mdk8",
        "node P6ub",
        1,
        29,
    ),
    "property ids that collide": (
        "node A { rkexa: I32 hxfrw: I32 }",
        "property A.hxfrw",
        "rkexa",
        1,
        21,
    ),
    "property ids that collide by inheritance": (
        "interface I { rkexa: I32 } node A implements I { hxfrw: I32 }",
        "property A.rkexa",
        "hxfrw",
        1,
        15,
    ),
    "edges that differ in case": (
        "node A {} edge Ee: A -> A edge EE: A -> A",
        "edge EE",
        "only in case",
        1,
        32,
    ),
    "an unknown source": ("node A {} edge E: B -> A", "edge E", "no node type 'B'", 1, 19),
    "an unknown target": (
        "node Person {} edge E: Person -> Persn",
        "edge E",
        "did you mean 'Person'",
        1,
        34,
    ),
    "an edge to an interface": (
        "interface I {} edge E: I -> I",
        "edge E",
        "no node type 'I'",
        1,
        24,
    ),
    "a maximum below the minimum": (
        "node A {} edge E: A -> A @card(2..1)",
        "@card of edge E",
        "minimum 2",
        1,
        26,
    ),
    "a maximum above u32": (
        "node A {} edge E: A -> A @card(0..4294967296)",
        "@card of edge E",
        "4294967295",
        1,
        35,
    ),
    "a vector of none": (
        "node A { v: Vector(0) }",
        "dimension of a Vector",
        "between 1 and",
        1,
        20,
    ),
    "a vector too long": (
        "node A { v: Vector(2147483648) }",
        "dimension of a Vector",
        "2147483647",
        1,
        20,
    ),
    "a list of blobs": ("node A { a: [Blob] }", "type [Blob]", "blobs", 1, 14),
    "an enum value twice": ("node A { a: enum(b, a, b) }", "enum value 'b'", "twice", 1, 24),
    "an unknown interface": ("node A implements I {}", "node A", "no interface 'I'", 1, 19),
    "a node as interface": (
        "node A implements B {} node B {}",
        "node A",
        "no interface 'B'",
        1,
        19,
    ),
    "another type than the interface": (
        "interface I { a: I32 } node A implements I { a: I32? }",
        "property A.a",
        "I32? here, but interface I declares it as I32",
        1,
        46,
    ),
    "two interfaces that differ": (
        "interface I { a: I32 } interface J { a: I64 } node A implements I, J {}",
        "property A.a",
        "interface J",
        1,
        15,
    ),
    "two keys": ("node A { a: I32 @key b: I32 @key }", "node A", "more than one @key", 1, 29),
    "a key in two forms": ("node A { a: I32 @key @key(a) }", "node A", "more than one @key", 1, 17),
    "an inherited second key": (
        "interface I { a: I32 @key } node A implements I { b: I32 @key }",
        "node A",
        "more than one @key",
        1,
        22,
    ),
    "a nullable key": ("node A { a: String? @key }", "property A.a", "never null", 1, 21),
    "a key with one nullable column": (
        "node A { a: I32 b: I32? @key(a, b) }",
        "property A.b",
        "never null",
        1,
        25,
    ),
    "a list as key": ("node A { a: [I32] @key(a) }", "property A.a", "@key", 1, 19),
    "a vector as key": ("node A { a: Vector(2) @key(a) }", "property A.a", "@key", 1, 23),
    "a blob as key": ("node A { a: Blob @key(a) }", "property A.a", "@key", 1, 18),
    "a key of nothing": ("node A { a: I32 @key(b) }", "node A", "'b'", 1, 17),
    "unique of nothing": ("node A { a: I32 @unique(src) }", "node A", "'src'", 1, 17),
    "index of nothing": ("node A {} edge E: A -> A { @index(id) }", "edge E", "'id'", 1, 28),
    "index on a blob": ("node A { a: Blob @index(a) }", "property A.a", "blob", 1, 18),
    "index annotated on a list": ("node A { a: [I32] @index }", "property A.a", "a list", 1, 19),
    "index annotated twice": ("node A { a: I32 @index @index }", "property A.a", "once", 1, 24),
    "unique annotated on a vector": (
        "node A { a: Vector(2) @unique }",
        "property A.a",
        "a vector",
        1,
        23,
    ),
    "unique annotated on a blob": ("node A { a: Blob @unique }", "property A.a", "a blob", 1, 18),
    "an inherited key on a list": (
        "interface I { a: [I32] @key } node A implements I {}",
        "property A.a",
        "a list",
        1,
        24,
    ),
    "a range of a text": (
        "node A { a: String @range(a, 0..1) }",
        "property A.a",
        "a number",
        1,
        20,
    ),
    "a range of a date": ("node A { a: Date @range(a, 0..1) }", "property A.a", "a number", 1, 18),
    "a range of nothing declared": ("node A { a: I32 @range(b, 0..1) }", "node A", "'b'", 1, 17),
    "a check of a number": ('node A { a: I32 @check(a, "x") }', "property A.a", "a String", 1, 17),
    "a key on an edge": ("node A {} edge E: A -> A { a: I32 @key }", "property E.a", "@key", 1, 35),
    "a body key on an edge": (
        "node A {} edge E: A -> A { a: I32 @key(a) }",
        "edge E",
        "not @key",
        1,
        35,
    ),
    "a range on an edge": (
        "node A {} edge E: A -> A { a: I32 @range(a, 0..) }",
        "edge E",
        "not @range",
        1,
        35,
    ),
    "a check on an edge": (
        'node A {} edge E: A -> A { a: String @check(a, "") }',
        "edge E",
        "not @check",
        1,
        38,
    ),
    "key on a type": ("node A @key { a: I32 }", "node A", "belongs to a property", 1, 8),
    "index on an edge type": (
        "node A {} edge E: A -> A @index",
        "edge E",
        "belongs to a property",
        1,
        26,
    ),
    "an empty description": ('node A @description(" \u3000") {}', "node A", "not empty", 1, 8),
    "a description without text": ("node A @description {}", "node A", "not empty", 1, 8),
    "two descriptions": (
        'node A { a: I32 @description("x") @description("y") }',
        "property A.a",
        "once",
        1,
        35,
    ),
    "two instructions": (
        'node A {} edge E: A -> A @instruction("x") @instruction("y")',
        "edge E",
        "once",
        1,
        44,
    ),
    "an instruction on a property": (
        'node A { a: I32 @instruction("x") }',
        "property A.a",
        "@instruction",
        1,
        17,
    ),
    "an embedding that is no vector": (
        "node A { t: String v: F32 @embed(t) }",
        "property A.v",
        "a Vector",
        1,
        27,
    ),
    "an embedding without source": (
        "node A { v: Vector(2) @embed }",
        "property A.v",
        "as in @embed",
        1,
        23,
    ),
    "an embedding of nothing": ("node A { v: Vector(2) @embed(x) }", "property A.v", "'x'", 1, 23),
    "an embedding of a list": (
        "node A { t: [String] v: Vector(2) @embed(t) }",
        "property A.v",
        "a String",
        1,
        35,
    ),
    "an embedding with an unknown keyword": (
        'node A { t: String v: Vector(2) @embed(t, modl="m") }',
        "property A.v",
        "'modl'",
        1,
        33,
    ),
    "an embedding on an edge": (
        "node A {} edge E: A -> A { t: String v: Vector(2) @embed(t) }",
        "property E.v",
        "an edge",
        1,
        51,
    ),
    "embed on a type": ("node A @embed(t) { t: String }", "node A", "belongs to a property", 1, 8),
}

#: Compiled, but no graph can be created (or opened again) with it: text and subject.
NOT_STORABLE: dict[str, tuple[str, str]] = {
    "id on a node": ("node A { id: String }", "property A.id"),
    "id on an edge": ("node A {} edge E: A -> A { id: String }", "property E.id"),
    "src on an edge": ("node A {} edge E: A -> A { src: String }", "property E.src"),
    "dst on an edge": ("node A {} edge E: A -> A { dst: I32 }", "property E.dst"),
    "an inherited id": ("interface I { id: String } node A implements I {}", "property A.id"),
    "_rowid": ("node A { _rowid: U64 }", "property A._rowid"),
    "_rowaddr": ("node A { _rowaddr: U64 }", "property A._rowaddr"),
    "_rowoffset": ("node A { _rowoffset: U64 }", "property A._rowoffset"),
}

#: The engine creates the graph, but then it cannot be loaded (the columns) or opened (the bound).
UNUSABLE: dict[str, tuple[str, str]] = {
    "_row_created_at_version": (
        "node A { _row_created_at_version: U64 }",
        "property A._row_created_at_version",
    ),
    "_row_last_updated_at_version": (
        "node A { _row_last_updated_at_version: U64 }",
        "property A._row_last_updated_at_version",
    ),
    "an endless bound": (f"node A {{ a: F64 @range(a, 1{'0' * 400}..) }}", "property A.a"),
}
