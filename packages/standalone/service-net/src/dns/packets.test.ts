// SPDX-License-Identifier: Apache-2.0
import * as dns from "dns-packet";
import { describe, expect, test } from "vitest";
import {
  isAnswerTo,
  MessageSplitter,
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

/** A query whose name begins with these two bytes. */
function replaceName(...bytes: readonly number[]): Buffer {
  const query = packet();
  query.set(bytes, 12);
  return query;
}

/** A query for a name of labels of 62 bytes. */
function longName(labels: number): Buffer {
  const label = Buffer.concat([Buffer.from([62]), Buffer.alloc(62, "a")]);
  const name = Array.from({ length: labels }, () => label);
  return Buffer.concat([packet().subarray(0, 12), ...name, Buffer.from([0, 0, 1, 0, 1])]);
}

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

  test("has only its first question read", () => {
    const questions = [QUESTION, { ...QUESTION, name: "other" }];
    expect(readQuery(packet({ questions }))).toMatchObject({
      name: "Web.example",
      isStandard: false,
    });
  });

  test("may be for a type without a name here", () => {
    const query = readQuery(packet({ questions: [{ ...QUESTION, type: "TXT" }] }));
    expect(query).toMatchObject({ type: "UNKNOWN_16", isStandard: true });
  });

  const many = Array.from({ length: 9 }, () => OTHER);

  test.each([
    { name: "a pointer in its question", bytes: replaceName(0xc0, 12) },
    { name: "a label of a reserved kind", bytes: replaceName(0x80, 12) },
    { name: "more than 8 records", bytes: packet({ additionals: many }) },
    { name: "more than 4,096 bytes", bytes: Buffer.concat([packet(), Buffer.alloc(4096)]) },
    { name: "a truncated record", bytes: packet({ additionals: [OTHER] }).subarray(0, -1) },
    { name: "a name above 254 bytes", bytes: longName(5) },
  ])("is invalid with $name", ({ bytes }) => {
    expect(readQuery(bytes)).toBeUndefined();
  });

  test("may have a name of 252 bytes", () => {
    expect(readQuery(longName(4))?.name).toHaveLength(251);
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
    expect(reencoded(packet({ ...answer, answers: [OTHER] }))).toMatchObject([OTHER]);
    expect(readAnswers(packet(answer))).toEqual([]);
    expect(readAnswers(Buffer.from("text"))).toBeUndefined();
    const many = Array.from({ length: 513 }, () => OTHER);
    expect(readAnswers(packet({ ...answer, answers: many }))).toBeUndefined();
  });
});

/** Copies records into a message in which pointers of their message are invalid. */
function reencoded(bytes: Buffer): readonly dns.Answer[] {
  const answers = [...(readAnswers(bytes) ?? [])];
  return dns.decode(dns.encode({ type: "response", answers })).answers ?? [];
}

describe("names in an upstream server's records", () => {
  const question = packet({ type: "response" });
  const toFirst = Buffer.from([0xc0, 12]);

  /** An answer with one record, whose name points to the question's. */
  function withRecord(type: number, data: Buffer): Buffer {
    const head = Buffer.alloc(10);
    head.writeUInt16BE(type, 0);
    head.writeUInt16BE(1, 2);
    head.writeUInt16BE(data.length, 8);
    const bytes = Buffer.concat([question, toFirst, head, data]);
    bytes.writeUInt16BE(1, 6);
    return bytes;
  }

  test.each([
    { type: 5, prefix: [], want: "Web.example" },
    { type: 15, prefix: [0, 10], want: { preference: 10, exchange: "Web.example" } },
    { type: 33, prefix: [0, 1, 0, 2, 0, 80], want: { port: 80, target: "Web.example" } },
  ])("are complete in records of type $type", ({ type, prefix, want }) => {
    const data = Buffer.concat([Buffer.from(prefix), toFirst]);
    const [record] = reencoded(withRecord(type, data));
    expect(record).toMatchObject({ name: "Web.example", data: want });
  });

  test("follow at most 8 pointers", () => {
    const start = question.length + 12;
    const chain = (count: number): Buffer => {
      const pointers = Array.from({ length: count }, (_pointer, index) => {
        const target = index === count - 1 ? 12 : start + 2 * (index + 1);
        return Buffer.from([0xc0 | (target >> 8), target & 0xff]);
      });
      return withRecord(5, Buffer.concat(pointers));
    };
    expect(readAnswers(chain(8))).toHaveLength(1);
    expect(readAnswers(chain(9))).toBeUndefined();
    const toItself = withRecord(5, Buffer.from([0xc0, start]));
    expect(readAnswers(toItself)).toBeUndefined();
  });

  test("must end within the record", () => {
    expect(readAnswers(withRecord(5, Buffer.from([3, 0x61])))).toBeUndefined();
    expect(readAnswers(withRecord(15, Buffer.from([0])))).toBeUndefined();
  });
});

test("a TCP stream is split into messages, however it arrives", () => {
  const stream = Buffer.from([0, 2, 1, 2, 0, 0, 0, 1, 3, 0]);
  const splitter = new MessageSplitter();
  const messages: Buffer[] = [];
  for (const byte of stream) {
    splitter.push(Buffer.of(byte));
    for (let next = splitter.next(); next !== undefined; next = splitter.next())
      messages.push(next);
  }
  expect(messages).toEqual([Buffer.from([1, 2]), Buffer.alloc(0), Buffer.from([3])]);
});

test("replaces an id in a copy", () => {
  const bytes = writeQuestion("a", "A", 1);
  expect(withId(bytes, 0xabcd)).toEqual(writeQuestion("a", "A", 0xabcd));
  expect(bytes).toEqual(writeQuestion("a", "A", 1));
});
