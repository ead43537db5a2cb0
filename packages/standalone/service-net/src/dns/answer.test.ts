// SPDX-License-Identifier: Apache-2.0
import * as dns from "dns-packet";
import fc from "fast-check";
import { expect, test } from "vitest";
import { aService, aSlice, RANGES } from "../testing/objects.ts";
import { answerQuery, type AnswerDeps, type ForwardQuery } from "./answer.ts";
import type { Zone } from "./zone.ts";

const ENDPOINTS = Array.from({ length: 60 }, (_none, index) => ({
  addresses: [`10.88.0.${String(index + 1)}`],
}));
const SERVICES = [
  aService(),
  aService({ clusterIP: "None" }, { name: "many" }),
  aService({ type: "ExternalName", externalName: "example.org" }, { name: "out" }),
  aService({ type: "ExternalName", externalName: "web.blue.svc.cluster.local" }, { name: "alias" }),
  aService({ type: "ExternalName", externalName: "loop.blue.svc.cluster.local" }, { name: "loop" }),
];
const ZONE: Zone = {
  domain: "cluster.local",
  ranges: RANGES,
  findService: (_namespace, name) => SERVICES.find(({ metadata }) => metadata.name === name),
  slicesOf: () => [aSlice(ENDPOINTS)],
  hasNamespace: () => true,
};
const NOBODY: ForwardQuery = () => Promise.resolve(undefined);
/** Another server, which knows one address for every name. */
const OTHERS: ForwardQuery = (question) => {
  const { questions = [] } = dns.decode(question);
  const answers = questions.map(({ name }): dns.Answer => ({
    type: "A",
    name,
    ttl: 60,
    data: "192.0.2.7",
  }));
  return Promise.resolve(dns.encode({ type: "response", id: 9, questions, answers }));
};

function ask(change: dns.Packet & { readonly name?: string; readonly qtype?: string }) {
  const { name = "web.blue.svc.cluster.local", qtype = "A", ...packet } = change;
  return dns.encode({
    type: "query",
    id: 4711,
    flags: dns.RECURSION_DESIRED,
    questions: [{ type: qtype as dns.RecordType, name }],
    ...packet,
  });
}

async function answered(
  bytes: Buffer,
  { forwardQuery = NOBODY, isTcp = false, nextRotation = 0, counts = [] as string[] } = {},
): Promise<dns.DecodedPacket | undefined> {
  const deps: AnswerDeps = {
    zone: ZONE,
    forwardQuery,
    nextRotation: () => nextRotation,
    countReply: ({ by, result }) => counts.push(`${by} ${result}`),
  };
  const answer = await answerQuery(bytes, { address: "10.88.0.9", isTcp }, deps);
  return answer === undefined ? undefined : dns.decode(answer);
}

/** Code, and what each record says. */
async function said(
  ...args: Parameters<typeof answered>
): Promise<readonly [string | undefined, readonly unknown[]]> {
  const packet = await answered(...args);
  // The library's types leave the code out.
  const { rcode } = (packet ?? {}) as { readonly rcode?: string };
  return [
    rcode,
    (packet?.answers ?? []).map((answer) => ("data" in answer ? answer.data : answer)),
  ];
}

test.each([
  { name: "web.blue.svc.cluster.local", qtype: "A", want: ["NOERROR", ["10.96.0.5"]] },
  { name: "web.blue.svc.cluster.local", qtype: "AAAA", want: ["NOERROR", []] },
  { name: "web.blue.svc.cluster.local", qtype: "ANY", want: ["NOERROR", ["10.96.0.5"]] },
  { name: "none.blue.svc.cluster.local", qtype: "A", want: ["NXDOMAIN", []] },
  {
    name: "alias.blue.svc.cluster.local",
    qtype: "A",
    want: ["NOERROR", ["web.blue.svc.cluster.local", "10.96.0.5"]],
  },
  { name: "out.blue.svc.cluster.local", qtype: "CNAME", want: ["NOERROR", ["example.org"]] },
  { name: "loop.blue.svc.cluster.local", qtype: "A", want: ["NXDOMAIN", []] },
  { name: "example.org", qtype: "A", want: ["SERVFAIL", []] },
] as const)("$qtype of $name", async ({ name, qtype, want }) => {
  expect(await said(ask({ name, qtype }))).toEqual(want);
});

test("the response contains the question and a TTL", async () => {
  const packet = await answered(ask({ name: "WEB.blue.svc.cluster.local" }));
  expect(packet).toMatchObject({ id: 4711, type: "response" });
  expect(packet?.questions?.[0]?.name).toBe("WEB.blue.svc.cluster.local");
  expect(packet?.answers?.[0]).toMatchObject({ ttl: 5 });
  const missing = await answered(ask({ name: "none.blue.svc.cluster.local" }));
  expect(missing?.authorities?.[0]).toMatchObject({ type: "SOA", name: "cluster.local" });
});

test("forwards queries of other zones and CNAME targets", async () => {
  const forwardQuery = OTHERS;
  const packet = await answered(ask({ name: "example.org" }), { forwardQuery });
  expect([packet?.id, packet?.answers?.length]).toEqual([4711, 1]);
  expect(await said(ask({ name: "out.blue.svc.cluster.local" }), { forwardQuery })).toEqual([
    "NOERROR",
    ["example.org", "192.0.2.7"],
  ]);
});

test.each([
  { name: "web.blue.svc.cluster.local", forwardQuery: NOBODY, want: ["own done"] },
  { name: "none.blue.svc.cluster.local", forwardQuery: NOBODY, want: ["own missing"] },
  { name: "example.org", forwardQuery: OTHERS, want: ["others done"] },
  { name: "example.org", forwardQuery: NOBODY, want: ["others failed"] },
  { name: "out.blue.svc.cluster.local", forwardQuery: OTHERS, want: ["others done"] },
  { name: "out.blue.svc.cluster.local", forwardQuery: NOBODY, want: ["others failed"] },
])("counts $name as $want", async ({ name, forwardQuery, want }) => {
  const counts: string[] = [];
  await answered(ask({ name }), { forwardQuery, counts });
  expect(counts).toEqual(want);
});

test.each([
  { what: "nothing", answer: undefined },
  { what: "an invalid packet", answer: Buffer.from("text") },
])("reports a server failure if upstream servers return $what", async ({ answer }) => {
  const forwardQuery: ForwardQuery = () => Promise.resolve(answer);
  const name = "out.blue.svc.cluster.local";
  expect(await said(ask({ name }), { forwardQuery })).toEqual(["SERVFAIL", []]);
});

test("forwards queries on behalf of the client, by TCP for CNAME targets", async () => {
  const hows: unknown[] = [];
  const forwardQuery: ForwardQuery = (question, how) => {
    hows.push(how);
    return OTHERS(question, how);
  };
  for (const name of ["example.org", "out.blue.svc.cluster.local"]) {
    await answered(ask({ name }), { forwardQuery });
  }
  expect(hows).toEqual([false, true].map((isTcp) => ({ isTcp, client: "10.88.0.9" })));
});

test("rotates the order of several addresses", async () => {
  const bytes = ask({ name: "many.blue.svc.cluster.local" });
  const first = await said(bytes, { isTcp: true, nextRotation: 0 });
  const second = await said(bytes, { isTcp: true, nextRotation: 1 });
  expect([first[1][0], second[1][0]]).toEqual(["10.88.0.1", "10.88.0.2"]);
  expect(first[1].length).toBe(60);
});

test("truncates UDP responses at the client's limit, and sends all by TCP", async () => {
  const name = "many.blue.svc.cluster.local";
  const short = await answered(ask({ name }));
  expect([short?.flag_tc, short?.answers]).toEqual([true, []]);
  const opt: dns.Answer = {
    type: "OPT",
    name: ".",
    udpPayloadSize: 1232,
    extendedRcode: 0,
    ednsVersion: 0,
    flags: 0,
    flag_do: false,
    options: [],
  };
  const long = await answered(ask({ name, additionals: [opt] }));
  expect([long?.flag_tc, long?.additionals?.[0]?.type]).toEqual([true, "OPT"]);
});

test.each([
  { what: "a response", bytes: ask({ type: "response" }) },
  { what: "a truncated header", bytes: ask({}).subarray(0, 11) },
  { what: "a truncated question", bytes: ask({}).subarray(0, 20) },
  { what: "a packet without a question", bytes: ask({ questions: [] }) },
])("$what gets no response", async ({ bytes }) => {
  expect(await answered(bytes, { forwardQuery: OTHERS })).toBeUndefined();
});

test.each([
  {
    what: "two questions",
    packet: { questions: [1, 2].map(() => ({ type: "A", name: "a" }) as const) },
  },
  { what: "another class", packet: { questions: [{ type: "A", name: "a", class: "CH" }] } },
  { what: "a dynamic update", packet: { flags: 5 << 11 } },
] as const)("$what is not implemented", async ({ packet }) => {
  const { questions = [{ type: "A", name: "a" } as const], ...rest } = packet as dns.Packet;
  expect((await said(ask({ questions, ...rest }), { forwardQuery: OTHERS }))[0]).toBe("NOTIMP");
});

test("arbitrary packets cause no crash", async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 80 }), async (bytes) => {
      await answered(Buffer.from(bytes), { forwardQuery: OTHERS });
      await answered(Buffer.concat([ask({}).subarray(0, 12), Buffer.from(bytes)]));
    }),
  );
});
