// SPDX-License-Identifier: Apache-2.0
import * as dns from "dns-packet";
import { describe, expect, test } from "vitest";
import {
  isAnswerTo,
  readAnswers,
  readQuery,
  withId,
  writeQuestion,
  writeReply,
  type Query,
  type Reply,
} from "./packets.ts";

const QUESTION = { type: "A", name: "Web.example", class: "IN" } as const;

function packet(change: Partial<dns.Packet> = {}): Buffer {
  return dns.encode({ type: "query", id: 7, flags: 0, questions: [QUESTION], ...change });
}

function edns(udpPayloadSize: number): dns.Answer {
  return {
    type: "OPT",
    name: ".",
    udpPayloadSize,
    extendedRcode: 0,
    ednsVersion: 0,
    flags: 0,
    flag_do: false,
    options: [],
  };
}

const OTHER: dns.Answer = { type: "A", name: "other", ttl: 1, data: "192.0.2.1" };

describe("a query", () => {
  const plain = { hasEdns: false, udpMax: 512, isStandard: true, isRecursive: false };
  test.each([
    { name: "may lack EDNS", change: {}, want: plain },
    {
      name: "may want recursion",
      change: { flags: dns.RECURSION_DESIRED },
      want: { ...plain, isRecursive: true },
    },
    { name: "may carry other records", change: { additionals: [OTHER] }, want: plain },
    {
      name: "gets at least 512 bytes",
      change: { additionals: [edns(100)] },
      want: { ...plain, hasEdns: true },
    },
    {
      name: "gets as much as it allows",
      change: { additionals: [OTHER, edns(800)] },
      want: { ...plain, hasEdns: true, udpMax: 800 },
    },
    {
      name: "gets at most 1232 bytes",
      change: { additionals: [edns(4096)] },
      want: { ...plain, hasEdns: true, udpMax: 1232 },
    },
  ])("$name", ({ change, want }) => {
    expect(readQuery(packet(change))).toMatchObject({ ...want, id: 7, name: "Web.example" });
  });

  test("is invalid if only a header arrives", () => {
    expect(readQuery(packet().subarray(0, 12))).toBeUndefined();
    expect(readQuery(packet({ questions: [] }))).toBeUndefined();
    expect(readQuery(Buffer.from("text"))).toBeUndefined();
  });
});

describe("a reply", () => {
  const query: Query = {
    id: 7,
    name: "web",
    type: "A",
    question: QUESTION,
    isRecursive: true,
    hasEdns: false,
    udpMax: 512,
    isStandard: true,
  };
  const address = { name: "web", record: { type: "A", address: "10.0.0.1" } } as const;
  const written = (reply: Reply, change: Partial<Query> = {}, isTcp = false) =>
    dns.decode(writeReply({ ...query, ...change }, reply, isTcp));

  test("contains each type of record", () => {
    const srv = { type: "SRV", target: "pod.web", port: 80 } as const;
    const records = [
      { name: "_http._tcp.web", record: srv },
      { name: "www", record: { type: "CNAME", target: "web" } as const },
      address,
    ];
    expect(written({ rcode: 0, records, forwardedAnswers: [OTHER] }).answers).toMatchObject([
      { type: "SRV", name: "_http._tcp.web", ttl: 5, data: { target: "pod.web", port: 80 } },
      { type: "CNAME", name: "www", ttl: 5, data: "web" },
      { type: "A", name: "web", ttl: 5, data: "10.0.0.1" },
      { type: "A", name: "other", ttl: 1, data: "192.0.2.1" },
    ]);
  });

  test("is authoritative for the zone, and copies the recursion flag", () => {
    const own = written({ rcode: 0, records: [address], domain: "example" });
    expect(own).toMatchObject({ flag_aa: true, flag_rd: true, flag_ra: true, authorities: [] });
    const foreign = written({ rcode: 2, records: [] }, { isRecursive: false });
    expect(foreign).toMatchObject({ flag_aa: false, flag_rd: false, authorities: [] });
  });

  test("without records has the SOA, which limits caching", () => {
    expect(written({ rcode: 3, records: [], domain: "example" }).authorities).toMatchObject([
      {
        type: "SOA",
        name: "example",
        ttl: 5,
        data: {
          mname: "ns.dns.example",
          rname: "hostmaster.example",
          serial: 1,
          refresh: 7200,
          retry: 1800,
          expire: 86_400,
          minimum: 5,
        },
      },
    ]);
  });

  test("has the EDNS option if the query has it", () => {
    expect(written({ rcode: 0, records: [] }).additionals).toEqual([]);
    expect(written({ rcode: 0, records: [] }, { hasEdns: true }).additionals).toMatchObject([
      { type: "OPT", udpPayloadSize: 1232 },
    ]);
  });

  test("is truncated over UDP beyond the limit, never over TCP", () => {
    const reply = { rcode: 0, records: [address, address] };
    const { length } = writeReply(query, reply, true);
    const cut = (udpMax: number, isTcp: boolean) => {
      const { flag_tc, answers } = written(reply, { udpMax }, isTcp);
      return [flag_tc, answers?.length];
    };
    expect(cut(length, false)).toEqual([false, 2]);
    expect(cut(length - 1, false)).toEqual([true, 0]);
    expect(cut(length - 1, true)).toEqual([false, 2]);
  });
});

describe("an upstream server's answer", () => {
  const query = { name: "web.EXAMPLE", type: "A" };
  const answer = { type: "response" } as const;
  test.each([
    { name: "with the query's id and question", bytes: packet(answer), want: true },
    { name: "with another id", bytes: packet({ ...answer, id: 8 }), want: false },
    { name: "without the response flag", bytes: packet(), want: false },
    { name: "without question", bytes: packet({ ...answer, questions: [] }), want: false },
    {
      name: "with another type",
      bytes: packet({ ...answer, questions: [{ ...QUESTION, type: "AAAA" }] }),
      want: false,
    },
    { name: "unreadable", bytes: Buffer.from("text"), want: false },
  ])("$name is accepted: $want", ({ bytes, want }) => {
    expect(isAnswerTo(bytes, query, 7)).toBe(want);
  });

  test("is parsed if it is valid", () => {
    expect(readAnswers(packet({ ...answer, answers: [OTHER] }))).toMatchObject([OTHER]);
    expect(readAnswers(packet(answer))).toEqual([]);
    expect(readAnswers(Buffer.from("text"))).toBeUndefined();
  });
});

test("replaces an id in a copy", () => {
  const bytes = writeQuestion("a", "A", 1);
  expect(withId(bytes, 0xabcd)).toEqual(writeQuestion("a", "A", 0xabcd));
  expect(bytes).toEqual(writeQuestion("a", "A", 1));
});
