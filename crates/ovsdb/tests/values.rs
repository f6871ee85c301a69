//! Values survive their JSON form, differences their application, messages any cut of the stream.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use netloom_ovsdb::codec::Decoder;
use netloom_ovsdb::message::Message;
use netloom_ovsdb::{Atom, Condition, Datum, Mutation, Operation, Schema, Transaction, Uuid};
use proptest::prelude::*;
use serde_json::{Value, json};

fn atom() -> impl Strategy<Value = Atom> {
    prop_oneof![
        any::<i64>().prop_map(Atom::from),
        // As many digits as servers keep.
        any::<i32>().prop_map(|thousandths| Atom::from(f64::from(thousandths) / 1000.0)),
        any::<bool>().prop_map(Atom::from),
        ".*".prop_map(Atom::from),
        any::<u128>().prop_map(|bits| Atom::from(Uuid::from_u128(bits))),
        "[a-z_]{1,8}".prop_map(|name| Atom::NamedUuid(name.into())),
    ]
}

fn small_set() -> impl Strategy<Value = Datum> {
    prop::collection::vec(0..10i64, 0..8).prop_map(Datum::set)
}

fn small_map() -> impl Strategy<Value = Datum> {
    prop::collection::vec((0..10i64, 0..3i64), 0..8).prop_map(Datum::map)
}

fn datum() -> impl Strategy<Value = Datum> {
    prop_oneof![
        prop::collection::vec(atom(), 0..5).prop_map(Datum::set),
        prop::collection::vec((atom(), atom()), 0..5).prop_map(Datum::map),
    ]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".*".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 20, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(".*", inner, 0..5).prop_map(|map| json!(map)),
        ]
    })
}

fn message() -> impl Strategy<Value = Message> {
    let id = any::<u32>().prop_map(Value::from);
    prop_oneof![
        (id.clone(), ".*", json()).prop_map(|(id, method, params)| Message::Request { id, method, params }),
        (".*", json()).prop_map(|(method, params)| Message::Notification { method, params }),
        (id, json(), json()).prop_map(|(id, result, error)| Message::Response { id, result, error }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn atoms_survive_json(atom in atom()) {
        let text = serde_json::to_string(&atom).unwrap();
        prop_assert_eq!(serde_json::from_str::<Atom>(&text).unwrap(), atom, "{}", text);
    }

    #[test]
    fn datums_survive_json(datum in datum()) {
        let text = serde_json::to_string(&datum).unwrap();
        prop_assert_eq!(serde_json::from_str::<Datum>(&text).unwrap(), datum, "{}", text);
    }

    #[test]
    fn a_difference_leads_from_old_to_new(
        (old, new) in prop_oneof![(small_set(), small_set()), (small_map(), small_map())]
    ) {
        prop_assert_eq!(old.apply_difference(&old.difference(&new)), new);
    }

    #[test]
    fn messages_survive_any_cut(messages in prop::collection::vec(message(), 1..5), cuts in prop::collection::vec(1..40usize, 1..20)) {
        let bytes: Vec<u8> = messages.iter().flat_map(|message| serde_json::to_vec(message).unwrap()).collect();
        let mut decoder = Decoder::new();
        let (mut decoded, mut rest, mut cuts) = (Vec::new(), bytes.as_slice(), cuts.into_iter().cycle());
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(cuts.next().unwrap().min(rest.len()));
            decoded.extend(decoder.feed(piece).unwrap());
            rest = more;
        }
        prop_assert_eq!(decoded, messages);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..10)) {
        let mut decoder = Decoder::new();
        for piece in pieces {
            if decoder.feed(&piece).is_err() {
                break;
            }
        }
    }

    #[test]
    fn no_json_makes_a_value_panic(json in json()) {
        let _ = Atom::from_json(&json);
        let _ = Datum::from_json(&json);
        let _ = Message::from_json(json);
    }
}

#[test]
fn deep_nesting_and_garbage_are_errors() {
    assert!(Decoder::new().feed(&b"{\"a\":[".repeat(1000)).is_err());
    assert!(Decoder::new().feed(b"hello").is_err());
    assert!(Decoder::new().feed(b"[]").is_err());
    assert!(Decoder::new().feed(b"{]").is_err());
    assert!(Decoder::new().feed(b"{\"id\": null}").is_err());
}

#[test]
fn an_error_reply_may_leave_out_its_result() {
    let messages = Decoder::new().feed(br#"{"id":1,"error":"unknown method"}"#).unwrap();
    assert_eq!(
        messages,
        [Message::Response {
            id: json!(1),
            result: Value::Null,
            error: json!("unknown method")
        }]
    );
}

#[test]
fn rows_from_the_wire_become_canonical() {
    let schema = Schema::parse(
        r#"{"name": "D", "version": "1.0.0", "tables": {"T": {"columns": {
            "name": {"type": "string"}, "weight": {"type": "real"},
            "tags": {"type": {"key": "string", "min": 0, "max": "unlimited"}},
            "up": {"type": {"key": "boolean", "min": 0, "max": 1}},
            "ids": {"type": {"key": "string", "value": "real", "min": 0, "max": "unlimited"}}}}}}"#,
    )
    .unwrap();
    let wire = json!({"name": "", "weight": 2, "tags": "one", "up": ["set", []], "ids": ["map", [["a", 1]]]});
    let row = schema.normalize("T", &wire).unwrap();
    assert_eq!(row.keys().collect::<Vec<_>>(), ["ids", "tags", "weight"]);
    assert_eq!(row["weight"], Datum::scalar(2.0));
    assert_eq!(row["tags"], Datum::set(["one"]));
    assert_eq!(row["ids"], Datum::map([("a", 1.0)]));
    assert!(schema.normalize("T", &json!({"nope": 1})).is_err());
    assert!(schema.normalize("Nope", &json!({})).is_err());
}

#[test]
fn a_transaction_prints_what_will_run() {
    let uuid = Uuid::from_u128(1);
    let transaction = Transaction::new()
        .with(Operation::assert("writer"))
        .with(Operation::insert(
            "T",
            uuid,
            [("name".to_owned(), Datum::string("a")), ("tags".to_owned(), Datum::set(["x", "y"]))].into(),
        ))
        .with(Operation::update("T", uuid, [("ids".to_owned(), Datum::map([("k", "v")]))].into()))
        .with(Operation::mutate(
            "T",
            uuid,
            vec![Mutation::insert("tags", "z"), Mutation::add("count", 1)],
        ))
        .with(Operation::Delete {
            table: "T".to_owned(),
            where_: vec![Condition::equal("name", "b"), Condition::includes("tags", "x")],
        });
    let expected = "\
assert lock writer
insert T 00000000-0000-0000-0000-000000000001: name=\"a\" tags=[\"x\", \"y\"]
update T 00000000-0000-0000-0000-000000000001: ids={\"k\"=\"v\"}
mutate T 00000000-0000-0000-0000-000000000001: tags insert \"z\"; count += 1
delete T name == \"b\" and tags includes \"x\"
";
    assert_eq!(transaction.to_string(), expected);
}
