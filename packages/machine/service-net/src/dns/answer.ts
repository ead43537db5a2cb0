// SPDX-License-Identifier: Apache-2.0
// What is a question answered? From the machine's own names, or by whom the host asks.
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
import { lookUp, type Finding, type Zone } from "./zone.ts";

/** Asks the host's name servers; gives the answer to the bytes of a question, with an id of whatever value. */
export type AskOthers = (
  question: Buffer,
  how: { readonly isTcp: boolean; readonly client: string },
) => Promise<Buffer | undefined>;

/** What answers rest on. */
export interface AnswerDeps {
  readonly zone: Zone;
  readonly askOthers: AskOthers;
  /** Counts on with each answer, so that the first of several addresses is another one each time. */
  readonly turn: () => number;
  readonly countAnswer: ServiceCounters["countAnswer"];
}

/** Who asks, and how. */
export interface Asker {
  readonly address: string;
  readonly isTcp: boolean;
}

/** A name that stands for another one may stand for one that does so too. */
const ALIASES_MAX = 8;

function rotated<T>(items: readonly T[], turn: number): readonly T[] {
  const start = items.length === 0 ? 0 : turn % items.length;
  return [...items.slice(start), ...items.slice(0, start)];
}

interface Walk {
  readonly records: readonly NamedRecord[];
  /** Where it ends. */
  readonly name: string;
  readonly finding: Finding;
}

/** Follows names that stand for others, as far as they are ours. */
function walk(query: Query, zone: Zone): Walk {
  let records: readonly NamedRecord[] = [];
  let { name } = query;
  for (let count = 0; count < ALIASES_MAX; count += 1) {
    const finding = lookUp(name, zone);
    const found = finding.kind === "found" ? finding.records : [];
    const alias = found.find((record) => record.type === "CNAME");
    if (alias === undefined || query.type === "CNAME") return { records, name, finding };
    records = [...records, { name, record: alias }];
    name = alias.target;
  }
  return { records: [], name, finding: { kind: "missing" } };
}

/** What lies behind a name of ours that stands for one of another zone. */
async function askBehind(
  query: Query,
  { records, name }: Walk,
  { askOthers, zone, client, countAnswer }: AnswerDeps & { readonly client: string },
): Promise<Reply> {
  const how = { isTcp: true, client };
  const bytes = await askOthers(writeQuestion(name, query.type, 0), how);
  const others = bytes === undefined ? undefined : readAnswers(bytes);
  countAnswer({ by: "others", result: others === undefined ? "failed" : "done" });
  if (others === undefined) return { rcode: RCODE.failed, records: [] };
  return { rcode: RCODE.ok, records, others, domain: zone.domain };
}

function ownReply(query: Query, { records, name, finding }: Walk, deps: AnswerDeps): Reply {
  const { domain } = deps.zone;
  deps.countAnswer({ by: "own", result: finding.kind === "found" ? "done" : "missing" });
  if (finding.kind !== "found") return { rcode: RCODE.missing, records, domain };
  const meant = finding.records.filter(({ type }) => type === query.type || query.type === "ANY");
  const own = rotated(meant, deps.turn()).map((record) => ({ name, record }));
  return { rcode: RCODE.ok, records: [...records, ...own], domain };
}

/** The answer; undefined: what has come gets none. */
export async function answerTo(
  bytes: Buffer,
  asker: Asker,
  deps: AnswerDeps,
): Promise<Buffer | undefined> {
  const query = readQuery(bytes);
  if (query === undefined) return undefined;
  const write = (reply: Reply): Buffer => writeReply(query, reply, asker.isTcp);
  if (!query.isPlain) {
    deps.countAnswer({ by: "nobody", result: "refused" });
    return write({ rcode: RCODE.notImplemented, records: [] });
  }
  const walked = walk(query, deps.zone);
  if (walked.finding.kind !== "foreign") return write(ownReply(query, walked, deps));
  if (walked.records.length > 0)
    return write(await askBehind(query, walked, { ...deps, client: asker.address }));
  const answer = await deps.askOthers(bytes, { isTcp: asker.isTcp, client: asker.address });
  deps.countAnswer({ by: "others", result: answer === undefined ? "failed" : "done" });
  return answer === undefined
    ? write({ rcode: RCODE.failed, records: [] })
    : withId(answer, query.id);
}
