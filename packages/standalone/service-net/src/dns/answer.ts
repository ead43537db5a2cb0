// SPDX-License-Identifier: Apache-2.0
import {
  RCODE,
  readAnswers,
  readQuery,
  withId,
  writeQuestion,
  writeReply,
  type NamedRecord,
  type Query,
  type Reply,
} from "./packets.ts";
import type { ServiceCounters } from "../metrics.ts";
import { lookUp, type Lookup, type Zone } from "./zone.ts";

/** Forwards a query to the host's resolvers. The answer's message ID differs from the question's, so the caller must replace it. */
export type ForwardQuery = (
  question: Buffer,
  options: { readonly isTcp: boolean; readonly client: string },
) => Promise<Buffer | undefined>;

export interface AnswerDeps {
  readonly zone: Zone;
  readonly forwardQuery: ForwardQuery;
  /** Returns the number of positions by which to rotate the addresses of the next answer. */
  readonly nextRotation: () => number;
  readonly countReply: ServiceCounters["countReply"];
}

export interface DnsClient {
  readonly address: string;
  readonly isTcp: boolean;
}

const ALIASES_MAX = 8;

function rotate<T>(items: readonly T[], rotation: number): readonly T[] {
  const start = items.length === 0 ? 0 : rotation % items.length;
  return [...items.slice(start), ...items.slice(0, start)];
}

interface AliasChain {
  readonly records: readonly NamedRecord[];
  readonly name: string;
  readonly lookup: Lookup;
}

function followAliases(query: Query, zone: Zone): AliasChain {
  let records: readonly NamedRecord[] = [];
  let { name } = query;
  for (let count = 0; count < ALIASES_MAX; count += 1) {
    const lookup = lookUp(name, zone);
    const foundRecords = lookup.kind === "found" ? lookup.records : [];
    const alias = foundRecords.find((record) => record.type === "CNAME");
    if (alias === undefined || query.type === "CNAME") return { records, name, lookup };
    records = [...records, { name, record: alias }];
    name = alias.target;
  }
  return { records: [], name, lookup: { kind: "missing" } };
}

async function resolveAlias(
  query: Query,
  { records, name }: AliasChain,
  { forwardQuery, zone, client, countReply }: AnswerDeps & { readonly client: string },
): Promise<Reply> {
  const options = { isTcp: true, client };
  const bytes = await forwardQuery(writeQuestion(name, query.type, 0), options);
  const forwardedAnswers = bytes === undefined ? undefined : readAnswers(bytes);
  countReply({ by: "others", result: forwardedAnswers === undefined ? "failed" : "done" });
  if (forwardedAnswers === undefined) return { rcode: RCODE.failed, records: [] };
  return { rcode: RCODE.ok, records, forwardedAnswers, domain: zone.domain };
}

function ownReply(query: Query, { records, name, lookup }: AliasChain, deps: AnswerDeps): Reply {
  const { domain } = deps.zone;
  deps.countReply({ by: "own", result: lookup.kind === "found" ? "done" : "missing" });
  if (lookup.kind !== "found") return { rcode: RCODE.missing, records, domain };
  const matchingRecords = lookup.records.filter(
    ({ type }) => type === query.type || query.type === "ANY",
  );
  const ownRecords = rotate(matchingRecords, deps.nextRotation()).map((record) => ({
    name,
    record,
  }));
  return { rcode: RCODE.ok, records: [...records, ...ownRecords], domain };
}

export async function answerQuery(
  bytes: Buffer,
  dnsClient: DnsClient,
  deps: AnswerDeps,
): Promise<Buffer | undefined> {
  const query = readQuery(bytes);
  if (query === undefined) return undefined;
  const write = (reply: Reply): Buffer => writeReply(query, reply, dnsClient.isTcp);
  if (!query.isStandard) {
    deps.countReply({ by: "nobody", result: "refused" });
    return write({ rcode: RCODE.notImplemented, records: [] });
  }
  const chain = followAliases(query, deps.zone);
  if (chain.lookup.kind !== "foreign") return write(ownReply(query, chain, deps));
  if (chain.records.length > 0)
    return write(await resolveAlias(query, chain, { ...deps, client: dnsClient.address }));
  const answer = await deps.forwardQuery(bytes, {
    isTcp: dnsClient.isTcp,
    client: dnsClient.address,
  });
  deps.countReply({ by: "others", result: answer === undefined ? "failed" : "done" });
  return answer === undefined
    ? write({ rcode: RCODE.failed, records: [] })
    : withId(answer, query.id);
}
