// SPDX-License-Identifier: Apache-2.0
// From what a verb answers to the text that the client wants.
import { apiVersionOf } from "../kinds/kind.ts";
import { type Fields, parseJson, printJson } from "../objects/json.ts";
import { printYaml } from "../objects/yaml.ts";
import type { KubeObject } from "../objects/object.ts";
import type { StoredObject } from "../storage/store.ts";
import { type IncludeObject, toPartial, toTable } from "../table/table.ts";
import type { Call, Reply, Shown } from "../verbs/call.ts";
import { readText, viewObject } from "../verbs/readable.ts";
import type { Representation } from "./accept.ts";

/** Longer lists are sent piece by piece. */
const PIECEWISE_ITEMS = 100;

/** An answer ready to be sent. */
export interface Rendered {
  readonly code: number;
  readonly contentType: string;
  readonly text: string;
}

function isStored(shown: Shown): shown is StoredObject {
  return typeof shown["view"] === "function";
}

function includeOf(call: Call): IncludeObject {
  const asked = call.query.get("includeObject");
  return asked === "None" || asked === "Object" ? asked : "Metadata";
}

function toKubeObject(call: Call, shown: Shown): KubeObject {
  return isStored(shown) ? viewObject(call.kind, shown) : shown;
}

function objectText(call: Call, shown: Shown, nowMs: number): string {
  switch (call.representation.as) {
    case "object":
      return isStored(shown) ? readText(call.kind, shown) : printJson(shown);
    case "PartialObjectMetadata":
      return printJson(toPartial(toKubeObject(call, shown)));
    case "Table": {
      const object = toKubeObject(call, shown);
      const metadata = { resourceVersion: object.metadata.resourceVersion };
      const options = { kind: call.kind, include: includeOf(call), nowMs, headers: true };
      return printJson(toTable([object], metadata, options));
    }
  }
}

type ListReply = Extract<Reply, { type: "list" }>;

function listMetadata(reply: ListReply): Fields {
  return {
    resourceVersion: String(reply.revision),
    ...(reply.continueToken === undefined ? {} : { continue: reply.continueToken }),
    ...(reply.remaining === undefined ? {} : { remainingItemCount: reply.remaining }),
  };
}

/** A list of whole objects as pieces of JSON text: none of them is printed again, and never are all in memory. */
function* listPieces(call: Call, reply: ListReply): Generator<string> {
  const { kind } = call;
  const head = {
    kind: kind.listKind,
    apiVersion: apiVersionOf(kind),
    metadata: listMetadata(reply),
  };
  yield `${printJson(head).slice(0, -1)},"items":[`;
  let separator = "";
  for (const item of reply.items) {
    yield `${separator}${readText(kind, item)}`;
    separator = ",";
  }
  yield "]}\n";
}

function listText(call: Call, reply: ListReply, nowMs: number): string {
  const metadata = listMetadata(reply);
  const { kind } = call;
  const views = () => reply.items.map((item) => viewObject(kind, item));
  switch (call.representation.as) {
    case "object":
      return [...listPieces(call, reply)].join("").trimEnd();
    case "PartialObjectMetadata":
      return printJson({
        kind: "PartialObjectMetadataList",
        apiVersion: "meta.k8s.io/v1",
        metadata,
        items: views().map(toPartial),
      });
    case "Table":
      return printJson(
        toTable(views(), metadata, { kind, include: includeOf(call), nowMs, headers: true }),
      );
  }
}

/** The pieces of an answer that is too long to be made at once; undefined where `renderReply` makes it. */
export function piecesOf(call: Call, reply: Reply): Iterable<string> | undefined {
  const { as, format, pretty } = call.representation;
  return reply.type === "list" &&
    reply.items.length > PIECEWISE_ITEMS &&
    as === "object" &&
    format === "json" &&
    !pretty
    ? listPieces(call, reply)
    : undefined;
}

/** JSON text in the format that the client wants. */
export function inFormat(text: string, representation: Representation): Omit<Rendered, "code"> {
  if (representation.format === "yaml") {
    return { contentType: "application/yaml", text: printYaml(parseJson(text)) };
  }
  const pretty = representation.pretty ? `${printJson(parseJson(text), 2)}\n` : `${text}\n`;
  return { contentType: "application/json", text: pretty };
}

/** The answer as text. */
export function renderReply(call: Call, reply: Reply, nowMs: number): Rendered {
  switch (reply.type) {
    case "object":
      return {
        code: reply.code,
        ...inFormat(objectText(call, reply.object, nowMs), call.representation),
      };
    case "fields":
      return { code: reply.code, ...inFormat(printJson(reply.fields), call.representation) };
    case "list":
      return { code: 200, ...inFormat(listText(call, reply, nowMs), call.representation) };
  }
}
