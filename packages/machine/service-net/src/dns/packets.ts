// SPDX-License-Identifier: Apache-2.0
// Questions and answers of the DNS as bytes. Sources: RFC 1035, RFC 6891.
import * as dns from "dns-packet";
import type { ZoneRecord } from "./zone.ts";

/** How long an answer may be kept, seconds: a Service changes when its VMs do. Source: CoreDNS, plugin kubernetes. */
const TTL_SECONDS = 5;
/** Without EDNS. Source: RFC 1035 section 4.2.1 */
const UDP_MIN = 512;
/** What fits every path. Source: DNS flag day 2020. */
const UDP_MAX = 1232;
/** Where the kind of a question is in its flags. Source: RFC 1035 section 4.1.1 */
const [OPCODE_SHIFT, OPCODE_MASK] = [11, 15];

/** Codes of answers. Source: RFC 1035 section 4.1.1 */
export const RCODE = { ok: 0, failed: 2, missing: 3, notImplemented: 4 } as const;

/** A question that can be answered. */
export interface Query {
  readonly id: number;
  readonly name: string;
  readonly type: string;
  readonly question: dns.Question;
  /** Whether the client wants others asked. */
  readonly isRecursive: boolean;
  /** Whether it speaks EDNS, and how long an answer by UDP may be. */
  readonly hasEdns: boolean;
  readonly udpMax: number;
  /** Whether it is a question as one has it: one name, of the Internet. */
  readonly isPlain: boolean;
}

/** How long an answer by UDP may be. */
function udpMaxOf(opt: dns.Answer | undefined): number {
  const told = opt?.type === "OPT" ? opt.udpPayloadSize : UDP_MIN;
  return Math.min(UDP_MAX, Math.max(UDP_MIN, told));
}

function toQuery(packet: dns.DecodedPacket): Query | undefined {
  const { type, id = 0, flags = 0, questions = [], additionals = [] } = packet;
  const [question, ...others] = questions;
  if (type !== "query" || question === undefined) return undefined;
  const opt = additionals.find((answer) => answer.type === "OPT");
  const isOfInternet = question.class === undefined || question.class === "IN";
  return {
    id,
    name: question.name,
    type: question.type,
    question,
    isRecursive: (flags & dns.RECURSION_DESIRED) !== 0,
    hasEdns: opt !== undefined,
    udpMax: udpMaxOf(opt),
    isPlain: others.length === 0 && isOfInternet && ((flags >> OPCODE_SHIFT) & OPCODE_MASK) === 0,
  };
}

/** Reads a question; undefined: it is none, and gets no answer. */
export function readQuery(bytes: Buffer): Query | undefined {
  try {
    return toQuery(dns.decode(bytes));
  } catch {
    return undefined;
  }
}

/** A record under a name. */
export interface NamedRecord {
  readonly name: string;
  readonly record: ZoneRecord;
}

function toAnswer({ name, record }: NamedRecord): dns.Answer {
  const at = { name, ttl: TTL_SECONDS };
  switch (record.type) {
    case "A":
      return { ...at, type: "A", data: record.address };
    case "CNAME":
      return { ...at, type: "CNAME", data: record.target };
    case "SRV":
      return { ...at, type: "SRV", data: { target: record.target, port: record.port } };
  }
}

/** So that who asked for nothing knows for how long. Source: RFC 2308 */
function authorityOf(domain: string): dns.Answer {
  const names = { mname: `ns.dns.${domain}`, rname: `hostmaster.${domain}` };
  const times = { serial: 1, refresh: 7200, retry: 1800, expire: 86_400, minimum: TTL_SECONDS };
  return { type: "SOA", name: domain, ttl: TTL_SECONDS, data: { ...names, ...times } };
}

/** What is answered. */
export interface Reply {
  readonly rcode: number;
  readonly records: readonly NamedRecord[];
  /** Of another zone, behind a name of ours. */
  readonly others?: readonly dns.Answer[];
  /** The zone that the answer is of; absent: none of ours. */
  readonly domain?: string;
}

/** The answer as bytes; what is too long for UDP says that it is cut, and is asked for again by TCP. */
export function writeReply(query: Query, reply: Reply, isTcp: boolean): Buffer {
  const answers = [...reply.records.map(toAnswer), ...(reply.others ?? [])];
  const authoritative = reply.domain === undefined ? 0 : dns.AUTHORITATIVE_ANSWER;
  const asked = query.isRecursive ? dns.RECURSION_DESIRED : 0;
  const flags = authoritative | asked | dns.RECURSION_AVAILABLE | reply.rcode;
  const packet: dns.Packet = {
    type: "response",
    id: query.id,
    flags,
    questions: [query.question],
    answers,
    ...(answers.length === 0 &&
      reply.domain !== undefined && { authorities: [authorityOf(reply.domain)] }),
    ...(query.hasEdns && { additionals: [OPT] }),
  };
  const bytes = dns.encode(packet);
  if (isTcp || bytes.length <= query.udpMax) return bytes;
  return dns.encode({ ...packet, flags: flags | dns.TRUNCATED_RESPONSE, answers: [] });
}

const OPT: dns.Answer = {
  type: "OPT",
  name: ".",
  udpPayloadSize: UDP_MAX,
  extendedRcode: 0,
  ednsVersion: 0,
  flags: 0,
  flag_do: false,
  options: [],
};

/** A question for another server. */
export function writeQuestion(name: string, type: string, id: number): Buffer {
  // It was read as one, or is one of ours.
  const question = { name, type: type as dns.RecordType };
  return dns.encode({ type: "query", id, flags: dns.RECURSION_DESIRED, questions: [question] });
}

/** What another server answered; undefined: nothing that can be read. */
export function readAnswers(bytes: Buffer): readonly dns.Answer[] | undefined {
  try {
    return dns.decode(bytes).answers ?? [];
  } catch {
    return undefined;
  }
}

/** The same bytes with another id. */
export function withId(bytes: Buffer, id: number): Buffer {
  const copy = Buffer.from(bytes);
  copy.writeUInt16BE(id, 0);
  return copy;
}

function questionText(bytes: Buffer): string | undefined {
  try {
    const { id, type, questions } = dns.decode(bytes);
    const [question] = questions ?? [];
    if (type !== "response" || question === undefined) return undefined;
    return `${String(id)} ${question.type} ${question.name.toLowerCase()}`;
  } catch {
    return undefined;
  }
}

/** Whether it answers that question, which has this id: anybody may have sent it. */
export function isAnswerTo(
  bytes: Buffer,
  { name, type }: { readonly name: string; readonly type: string },
  id: number,
): boolean {
  return questionText(bytes) === `${String(id)} ${type} ${name.toLowerCase()}`;
}
