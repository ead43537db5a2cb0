// SPDX-License-Identifier: Apache-2.0
// Decodes DNS messages within limits, and encodes the answers. Source: RFC 1035, RFC 6891.
import { ByteQueue } from "@patchbay/base";
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

const LENGTH_PREFIX_BYTES = 2;
const HEADER_BYTES = 12;
const RESPONSE_FLAG = 0x80_00;
const [LABEL_BYTES_MAX, NAME_BYTES_MAX] = [63, 254];
const POINTER_BITS = 0xc0;
/** Clients add at most an EDNS and a signature record to a question. Servers need one or two pointers for a name. */
const [QUERY_RECORDS_MAX, ANSWER_RECORDS_MAX, POINTERS_MAX] = [8, 512, 8];
export const QUERY_BYTES_MAX = 4096;
const INTERNET_CLASS = 1;
const OPT_TYPE = 41;
const TYPE_NAMES: ReadonlyMap<number, string> = new Map([
  [1, "A"],
  [5, "CNAME"],
  [28, "AAAA"],
  [33, "SRV"],
  [255, "ANY"],
]);
const CLASS_NAMES: ReadonlyMap<number, string> = new Map([
  [INTERNET_CLASS, "IN"],
  [3, "CH"],
  [4, "HS"],
  [255, "ANY"],
]);

interface WireName {
  readonly labels: readonly Buffer[];
  readonly end: number;
}

function readName(bytes: Buffer, start: number, pointersMax: number): WireName | undefined {
  const labels: Buffer[] = [];
  let [offset, nameBytes, pointers] = [start, 0, 0];
  let end: number | undefined;
  while (offset < bytes.length) {
    const length = bytes.readUInt8(offset);
    if (length === 0) return { labels, end: end ?? offset + 1 };
    if (length >= POINTER_BITS) {
      if (pointers >= pointersMax || offset + 2 > bytes.length) return undefined;
      pointers += 1;
      end ??= offset + 2;
      offset = bytes.readUInt16BE(offset) & ~(POINTER_BITS << 8);
      continue;
    }
    nameBytes += length + 1;
    if (length > LABEL_BYTES_MAX || nameBytes > NAME_BYTES_MAX) return undefined;
    labels.push(bytes.subarray(offset + 1, offset + 1 + length));
    offset += length + 1;
  }
  return undefined;
}

function findNameEnd(bytes: Buffer, start: number): number {
  let offset = start;
  for (let length = bytes[offset]; length !== undefined && length > 0; length = bytes[offset]) {
    if (length >= POINTER_BITS) return offset + 2;
    offset += length + 1;
  }
  return offset + 1;
}

function printName({ labels }: WireName): string {
  return labels.length === 0 ? "." : labels.map((label) => label.toString()).join(".");
}

interface Message {
  readonly id: number;
  readonly flags: number;
  readonly questionCount: number;
  readonly answerCount: number;
  readonly recordCount: number;
  readonly question: dns.Question;
  readonly questionEnd: number;
}

function readMessage(bytes: Buffer): Message | undefined {
  if (bytes.length < HEADER_BYTES) return undefined;
  const [id = 0, flags = 0, questionCount = 0, answerCount = 0, authorities = 0, additionals = 0] =
    [0, 2, 4, 6, 8, 10].map((offset) => bytes.readUInt16BE(offset));
  const name = questionCount === 0 ? undefined : readName(bytes, HEADER_BYTES, 0);
  if (name === undefined || name.end + 4 > bytes.length) return undefined;
  const [type, classNumber] = [bytes.readUInt16BE(name.end), bytes.readUInt16BE(name.end + 2)];
  const question = {
    name: printName(name),
    // The casts are safe, because dns-packet encodes the names `UNKNOWN_NUMBER` too.
    type: (TYPE_NAMES.get(type) ?? `UNKNOWN_${String(type)}`) as dns.RecordType,
    class: (CLASS_NAMES.get(classNumber) ?? `UNKNOWN_${String(classNumber)}`) as dns.RecordClass,
  };
  const recordCount = answerCount + authorities + additionals;
  const questionEnd = name.end + 4;
  return { id, flags, questionCount, answerCount, recordCount, question, questionEnd };
}

interface WireRecord {
  readonly start: number;
  readonly type: number;
  readonly classOrPayloadSize: number;
  readonly ttl: number;
  readonly dataStart: number;
  readonly dataEnd: number;
}

const RECORD_HEADER_BYTES = 10;

function readRecords(
  bytes: Buffer,
  start: number,
  count: number,
): readonly WireRecord[] | undefined {
  const records: WireRecord[] = [];
  for (let offset = start; records.length < count;) {
    const header = findNameEnd(bytes, offset);
    const dataStart = header + RECORD_HEADER_BYTES;
    if (dataStart > bytes.length) return undefined;
    const dataEnd = dataStart + bytes.readUInt16BE(header + 8);
    if (dataEnd > bytes.length) return undefined;
    records.push({
      start: offset,
      type: bytes.readUInt16BE(header),
      classOrPayloadSize: bytes.readUInt16BE(header + 2),
      ttl: bytes.readUInt32BE(header + 4),
      dataStart,
      dataEnd,
    });
    offset = dataEnd;
  }
  return records;
}

function computeUdpMax(optRecord: WireRecord | undefined): number {
  const payloadSize = optRecord?.classOrPayloadSize ?? UDP_MIN_BYTES;
  return Math.min(UDP_MAX_BYTES, Math.max(UDP_MIN_BYTES, payloadSize));
}

function isStandard({ questionCount, question, flags }: Message): boolean {
  const opcode = (flags >> OPCODE_SHIFT) & OPCODE_MASK;
  return questionCount === 1 && question.class === "IN" && opcode === 0;
}

/** Decodes a query. Returns undefined for a packet that is malformed, is not a query, has no question, or exceeds the limits. */
export function readQuery(bytes: Buffer): Query | undefined {
  if (bytes.length > QUERY_BYTES_MAX) return undefined;
  const message = readMessage(bytes);
  if (message === undefined || (message.flags & RESPONSE_FLAG) !== 0) return undefined;
  const { id, flags, question, recordCount, questionEnd } = message;
  if (recordCount > QUERY_RECORDS_MAX) return undefined;
  const records = isStandard(message) ? readRecords(bytes, questionEnd, recordCount) : [];
  if (records === undefined) return undefined;
  const optRecord = records.find(({ type }) => type === OPT_TYPE);
  return {
    id,
    name: question.name,
    type: question.type,
    question,
    isRecursive: (flags & dns.RECURSION_DESIRED) !== 0,
    hasEdns: optRecord !== undefined,
    udpMax: computeUdpMax(optRecord),
    isStandard: isStandard(message),
  };
}

/** Splits the bytes of a TCP connection into messages. A length precedes each message. */
export class MessageSplitter {
  readonly #received = new ByteQueue();
  readonly #maxBytes: number;
  #length: number | undefined;

  constructor(maxBytes = Infinity) {
    this.#maxBytes = maxBytes;
  }

  get isBeyondLimit(): boolean {
    return (this.#length ?? 0) > this.#maxBytes;
  }

  push(piece: Buffer): void {
    this.#received.push(piece);
  }

  next(): Buffer | undefined {
    this.#length ??= this.#take(LENGTH_PREFIX_BYTES)?.readUInt16BE();
    const isReadable = this.#length !== undefined && !this.isBeyondLimit;
    const message = isReadable ? this.#take(this.#length ?? 0) : undefined;
    if (message !== undefined) this.#length = undefined;
    return message;
  }

  #take(count: number): Buffer | undefined {
    const bytes = this.#received.take(count);
    return bytes && Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
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

/** Names in the data of records: number of bytes before them, and number of names. The names of other types are not compressed. */
const NAMES_IN_DATA: ReadonlyMap<number, readonly [prefixBytes: number, names: number]> = new Map([
  [2, [0, 1]], // NS
  [5, [0, 1]], // CNAME
  [6, [0, 2]], // SOA
  [12, [0, 1]], // PTR
  [15, [2, 1]], // MX
  [33, [6, 1]], // SRV
  [39, [0, 1]], // DNAME
]);

function encodeName({ labels }: WireName): Buffer {
  const parts = labels.flatMap((label) => [Buffer.of(label.length), label]);
  return Buffer.concat([...parts, Buffer.of(0)]);
}

function expandData(bytes: Buffer, { type, dataStart, dataEnd }: WireRecord): Buffer | undefined {
  const [prefixBytes, names] = NAMES_IN_DATA.get(type) ?? [0, 0];
  let offset = dataStart + prefixBytes;
  const parts = [bytes.subarray(dataStart, Math.min(offset, dataEnd))];
  for (let count = 0; count < names; count += 1) {
    const name = readName(bytes, offset, POINTERS_MAX);
    if (name === undefined || name.end > dataEnd) return undefined;
    parts.push(encodeName(name));
    offset = name.end;
  }
  return Buffer.concat([...parts, bytes.subarray(offset, dataEnd)]);
}

function expandRecord(bytes: Buffer, record: WireRecord): dns.Answer | undefined {
  const name = readName(bytes, record.start, POINTERS_MAX);
  const data = expandData(bytes, record);
  if (name === undefined || data === undefined) return undefined;
  // The cast is safe, because dns-packet encodes data of unknown types without changing it.
  const type = `UNKNOWN_${String(record.type)}` as "NULL";
  return { type, name: printName(name), ttl: record.ttl, data };
}

export function readAnswers(bytes: Buffer): readonly dns.Answer[] | undefined {
  const message = readMessage(bytes);
  if (message?.questionCount !== 1 || message.answerCount > ANSWER_RECORDS_MAX) return undefined;
  const records = readRecords(bytes, message.questionEnd, message.answerCount);
  const answers = records?.flatMap((record) => expandRecord(bytes, record) ?? []);
  return answers?.length === message.answerCount ? answers : undefined;
}

export function withId(bytes: Buffer, id: number): Buffer {
  const copy = Buffer.from(bytes);
  copy.writeUInt16BE(id, 0);
  return copy;
}

function questionText(bytes: Buffer): string | undefined {
  const message = readMessage(bytes);
  if (message === undefined || (message.flags & RESPONSE_FLAG) === 0) return undefined;
  const { id, question } = message;
  return `${String(id)} ${question.type} ${question.name.toLowerCase()}`;
}

export function isAnswerTo(
  bytes: Buffer,
  { name, type }: { readonly name: string; readonly type: string },
  id: number,
): boolean {
  return questionText(bytes) === `${String(id)} ${type} ${name.toLowerCase()}`;
}
