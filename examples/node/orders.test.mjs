// kafkajs on a broker of its own: npm install && npm test
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Kafka, logLevel } from "kafkajs";
import { startBroker } from "./broker.mjs";

let broker;
let kafka;

before(async () => {
  broker = await startBroker("num.partitions=3");
  kafka = new Kafka({ brokers: [broker.kafka], logLevel: logLevel.ERROR });
});

after(() => broker.stop());

test("an order is read by its group, and committed", async () => {
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic: "orders" }] });

  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic: "orders", messages: [{ key: "7", value: "two pizzas" }] });
  await producer.disconnect();

  const consumer = kafka.consumer({ groupId: "kitchen" });
  await consumer.connect();
  await consumer.subscribe({ topics: ["orders"], fromBeginning: true });
  const seen = await new Promise((resolve, reject) => {
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }).catch(reject);
  });
  assert.equal(seen, "two pizzas");
  await consumer.disconnect();

  const offsets = await admin.fetchOffsets({ groupId: "kitchen", topics: ["orders"] });
  assert.equal(offsets[0].partitions.filter(({ offset }) => offset === "1").length, 1);
  await admin.disconnect();
});

test("why the group rebalanced is asked over HTTP", async () => {
  const answer = await fetch(`http://${broker.http}/api/v1/groups/kitchen`);
  const { history } = await answer.json();
  assert.equal(answer.status, 200);
  assert.equal(history[0].cause.kind, "a member joined");
});

test("an order is held by the broker until the test releases it", async () => {
  await broker.control("POST", "/expect/no-lag", { group: "kitchen", topic: "orders" });
  const { hold } = await broker.control("POST", "/holds", { api: "Produce", client: "slow" });
  const producer = new Kafka({ brokers: [broker.kafka], clientId: "slow", logLevel: logLevel.ERROR }).producer();
  await producer.connect();
  const sending = producer.send({ topic: "orders", messages: [{ value: "a soup" }] });
  await broker.control("POST", `/holds/${hold}/wait`, { count: 1 });
  const before = await broker.control("GET", "/records/orders");
  assert.deepEqual(before.records.map(({ value }) => value), ["two pizzas"]);
  await broker.control("DELETE", `/holds/${hold}`);
  await sending;
  await broker.control("POST", "/expect/records", { topic: "orders", values: ["two pizzas", "a soup"] });
  await producer.disconnect();
});
