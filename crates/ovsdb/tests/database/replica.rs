//! Whatever is written, every replica equals what the server has.

use netloom_ovsdb::{Client, Datum, Event, Mutation, Operation, Replica, Row, Transaction, Uuid};

use crate::support::{ADDRESSES, GLOBAL, PORT, SWITCH, Standalone, contents, id, row, select_all, until, within};

/// A small generator of numbers; the same ones in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn one<T: Clone>(&mut self, choices: &[T]) -> Option<T> {
        if choices.is_empty() {
            None
        } else {
            choices.get(self.below(choices.len() as u64) as usize).cloned()
        }
    }

    fn strings(&mut self) -> Datum {
        Datum::set((0..self.below(4)).map(|_| format!("e{}", self.below(6))).collect::<Vec<_>>())
    }

    fn pairs(&mut self) -> Datum {
        Datum::map(
            (0..self.below(4))
                .map(|_| (format!("k{}", self.below(5)), format!("v{}", self.below(3))))
                .collect::<Vec<_>>(),
        )
    }
}

fn uuids(client: &Client, table: &str) -> Vec<Uuid> {
    let mut uuids: Vec<Uuid> = client.read(|replica| replica.rows(table).map(|(uuid, _)| *uuid).collect()).unwrap();
    uuids.sort();
    uuids
}

/// One to three random operations on what is there.
fn transaction(random: &mut Random, client: &Client, step: usize) -> Transaction {
    let (switches, ports, sets) = (uuids(client, SWITCH), uuids(client, PORT), uuids(client, ADDRESSES));
    let mut transaction = Transaction::new();
    for part in 0..=random.below(3) {
        let key = format!("{step}.{part}");
        let operations = match random.below(8) {
            0 => {
                let columns = [
                    ("name", Datum::string(&key)),
                    ("external_ids", random.pairs()),
                    ("other_config", random.pairs()),
                ];
                vec![Operation::insert(SWITCH, id(&key), row(columns))]
            }
            1 => {
                let columns = [("name", Datum::string(&key)), ("addresses", random.strings())];
                vec![Operation::insert(ADDRESSES, id(&key), row(columns))]
            }
            2 => random.one(&switches).map_or_else(Vec::new, |switch| {
                let columns = [
                    ("name", Datum::string(&key)),
                    ("addresses", random.strings()),
                    ("options", random.pairs()),
                ];
                let port = Operation::insert(PORT, id(&key), row(columns));
                let reference = Mutation::insert("ports", Datum::uuid(id(&key)));
                vec![port, Operation::mutate(SWITCH, switch, vec![reference])]
            }),
            3 => random.one(&ports).map_or_else(Vec::new, |port| {
                let optional = if random.below(2) == 0 {
                    Datum::boolean(random.below(2) == 0)
                } else {
                    Datum::empty_set()
                };
                let columns = [
                    ("enabled", optional),
                    ("type", Datum::string(["", "router"][random.below(2) as usize])),
                ];
                vec![Operation::update(PORT, port, row(columns))]
            }),
            4 => random.one(&sets).map_or_else(Vec::new, |set| {
                let mutations = vec![
                    Mutation::insert("addresses", random.strings()),
                    Mutation::delete("addresses", random.strings()),
                ];
                vec![Operation::mutate(ADDRESSES, set, mutations)]
            }),
            5 => random.one(&switches).map_or_else(Vec::new, |switch| {
                let mutations = vec![
                    Mutation::delete("external_ids", random.strings()),
                    Mutation::insert("external_ids", random.pairs()),
                ];
                vec![Operation::mutate(SWITCH, switch, mutations)]
            }),
            6 => random.one(&switches).map_or_else(Vec::new, |switch| {
                vec![Operation::update(
                    SWITCH,
                    switch,
                    row([("external_ids", random.pairs()), ("ports", Datum::empty_set())]),
                )]
            }),
            _ => random
                .one(&switches)
                .map_or_else(Vec::new, |switch| vec![Operation::delete(SWITCH, switch)]),
        };
        transaction.extend(operations);
    }
    transaction
}

#[tokio::test]
async fn random_transactions_reach_every_replica() {
    let database = Standalone::start();
    let (writer, _writer_events) = database.client().await;
    let (reader, mut events) = database.client().await;
    within(writer.transact(Operation::insert(GLOBAL, id("global"), Row::new())))
        .await
        .unwrap();

    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut own: Option<Replica> = None;
    let mut refused = 0;
    for step in 0..400 {
        let random_part = transaction(&mut random, &writer, step);
        // A delete may come before a mutation of the same row, which then counts zero: all of these are valid.
        refused += usize::from(within(writer.transact(random_part)).await.is_err());
        if step % 20 != 19 {
            continue;
        }
        let mark = Operation::update(GLOBAL, id("global"), row([("nb_cfg", Datum::integer(step as i64))]));
        within(writer.transact(mark)).await.unwrap();
        until(&mut events, |event| match event {
            Event::Snapshot(replica) => {
                own = Some(replica);
                None
            }
            Event::Update(changes) => {
                let own = own.as_mut().unwrap();
                for change in &changes {
                    assert_eq!(
                        own.row(&change.table, &change.uuid),
                        change.old.as_ref(),
                        "the row before is the row we had"
                    );
                }
                own.apply(&changes);
                (own.row(GLOBAL, &id("global"))?.get("nb_cfg")?.as_integer() == Some(step as i64)).then_some(())
            }
            _ => None,
        })
        .await;
        let expected = select_all(&reader).await;
        assert_eq!(contents(own.as_ref().unwrap()), expected, "after step {step}");
        assert_eq!(reader.read(contents).unwrap(), expected);
        assert_eq!(writer.read(contents).unwrap(), expected);
    }
    assert!(refused < 40, "{refused} transactions refused: the test does not test much");
    assert!(reader.read(Replica::len).unwrap() > 20);
}
