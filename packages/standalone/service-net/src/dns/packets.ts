// SPDX-License-Identifier: Apache-2.0
// Decodes DNS queries, and encodes the answers. Source: RFC 1035, RFC 6891.
import * as dns from "dns-packet";
import type { ZoneRecord } from "./zone.ts";

/** TTL of answers in seconds. It is short, because endpoints change. Source: default of CoreDNS, plugin kubernetes. */
const TTL_SECONDS = 5;
/** Size that every client accepts over UDP. It is the maximum for clients without EDNS. Source: RFC 1035 section 4.2.1. */
const UDP_MIN_BYTES = 512;
/** Maximum size of a message with EDNS. IP could fragment larger messages. Source: DNS flag day 2020. */
const UDP_MAX_BYTES = 1232;
/** Shift and mask of the opcode in the flags. Source: RFC 1035 section 4.1.1. */
const [OPCODE_SHIFT, OPCODE_MASK] = [11, 15];

/** Response codes. Source: RFC 1035 section 4.1.1. */
export const RCODE = { ok: 0, failed: 2, missing: 3, notImplemented: 4 } as const;

export interface Query {
  readonly id: number;
  readonly name: string;
  readonly type: string;
  readonly question: dns.Question;
  readonly isRecursive: boolean;
  readonly hasEdns: boolean;
  readonly udpMax: number;
  /** Whether the message is a standard query (opcode 0) with exactly one question, of class IN. */
  readonly isStandard: boolean;
}

function computeUdpMax(optRecord: dns.Answer | undefined): number {
  const payloadSize = optRecord?.type === "OPT" ? optRecord.udpPayloadSize : UDP_MIN_BYTES;
  return Math.min(UDP_MAX_BYTES, Math.max(UDP_MIN_BYTES, payloadSize));
}

function toQuery(packet: dns.DecodedPacket): Query | undefined {
  const { type, id = 0, flags = 0, questions = [], additionals = [] } = packet;
  const [question, ...otherQuestions] = questions;
  if (type !== "query" || question === undefined) return undefined;
  const optRecord = additionals.find((answer) => answer.type === "OPT");
  const isInternetClass = question.class === undefined || question.class === "IN";
  return {
    id,
    name: question.name,
    type: question.type,
    question,
    isRecursive: (flags & dns.RECURSION_DESIRED) !== 0,
    hasEdns: optRecord !== undefined,
    udpMax: computeUdpMax(optRecord),
    isStandard:
      otherQuestions.length === 0 &&
      isInternetClass &&
      ((flags >> OPCODE_SHIFT) & OPCODE_MASK) === 0,
  };
}

/** Decodes a query. Returns undefined for a packet that is malformed, is not a query, or has no question. */
export function readQuery(bytes: Buffer): Query | undefined {
  try {
    return toQuery(dns.decode(bytes));
  } catch {
    return undefined;
  }
}

export interface NamedRecord {
  readonly name: string;
  readonly record: ZoneRecord;
}

function toAnswer({ name, record }: NamedRecord): dns.Answer {
  const commonFields = { name, ttl: TTL_SECONDS };
  switch (record.type) {
    case "A":
      return { ...commonFields, type: "A", data: record.address };
    case "CNAME":
      return { ...commonFields, type: "CNAME", data: record.target };
    case "SRV":
      return { ...commonFields, type: "SRV", data: { target: record.target, port: record.port } };
  }
}

/** Builds the SOA record, which limits how long clients cache a negative answer. Source: RFC 2308. */
function buildSoa(domain: string): dns.Answer {
  const names = { mname: `ns.dns.${domain}`, rname: `hostmaster.${domain}` };
  const times = { serial: 1, refresh: 7200, retry: 1800, expire: 86_400, minimum: TTL_SECONDS };
  return { type: "SOA", name: domain, ttl: TTL_SECONDS, data: { ...names, ...times } };
}

export interface Reply {
  readonly rcode: number;
  readonly records: readonly NamedRecord[];
  readonly forwardedAnswers?: readonly dns.Answer[];
  /** Domain of the zone; unset if this server is not authoritative. */
  readonly domain?: string;
}

/** Encodes a reply. Truncates a reply that is too long for UDP, so that the client retries over TCP. */
export function writeReply(query: Query, reply: Reply, isTcp: boolean): Buffer {
  const answers = [...reply.records.map(toAnswer), ...(reply.forwardedAnswers ?? [])];
  const authoritative = reply.domain === undefined ? 0 : dns.AUTHORITATIVE_ANSWER;
  const requestedFlags = query.isRecursive ? dns.RECURSION_DESIRED : 0;
  const flags = authoritative | requestedFlags | dns.RECURSION_AVAILABLE | reply.rcode;
  const packet: dns.Packet = {
    type: "response",
    id: query.id,
    flags,
    questions: [query.question],
    answers,
    ...(answers.length === 0 &&
      reply.domain !== undefined && { authorities: [buildSoa(reply.domain)] }),
    ...(query.hasEdns && { additionals: [OPT] }),
  };
  const bytes = dns.encode(packet);
  if (isTcp || bytes.length <= query.udpMax) return bytes;
  return dns.encode({ ...packet, flags: flags | dns.TRUNCATED_RESPONSE, answers: [] });
}

const OPT: dns.Answer = {
  type: "OPT",
  name: ".",
  udpPayloadSize: UDP_MAX_BYTES,
  extendedRcode: 0,
  ednsVersion: 0,
  flags: 0,
  flag_do: false,
  options: [],
};

export function writeQuestion(name: string, type: string, id: number): Buffer {
  const question = { name, type: type as dns.RecordType };
  return dns.encode({ type: "query", id, flags: dns.RECURSION_DESIRED, questions: [question] });
}

export function readAnswers(bytes: Buffer): readonly dns.Answer[] | undefined {
  try {
    return dns.decode(bytes).answers ?? [];
  } catch {
    return undefined;
  }
}

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

export function isAnswerTo(
  bytes: Buffer,
  { name, type }: { readonly name: string; readonly type: string },
  id: number,
): boolean {
  return questionText(bytes) === `${String(id)} ${type} ${name.toLowerCase()}`;
}
