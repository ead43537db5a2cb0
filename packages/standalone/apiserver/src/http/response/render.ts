// SPDX-License-Identifier: Apache-2.0
import { apiVersionOf } from "../../kinds/kind.ts";
import { type Fields, parseJson, printJson, without } from "../../objects/json.ts";
import { printYaml } from "../../objects/yaml.ts";
import type { KubeObject } from "../../objects/object.ts";
import type { TimeSlice } from "../../limits/fair-queue.ts";
import type { StoredObject } from "../../storage/store.ts";
import { type IncludeObject, toPartial, toRow, toTable } from "../../table/table.ts";
import type { Call, Reply, ReplyObject } from "../../verbs/call.ts";
import { readText, viewObject } from "../../verbs/conversion.ts";
import type { Representation } from "./accept.ts";

const STREAMED_LIST_MIN_LENGTH = 64 * 1024;

const PRETTY_MAX_LENGTH = 256 * 1024;

export interface RenderedResponse {
  readonly code: number;
  readonly contentType: string;
  readonly text: string;
}

function isStored(replyObject: ReplyObject): replyObject is StoredObject {
  return typeof replyObject["view"] === "function";
}

function parseIncludeObject(call: Call): IncludeObject {
  const requested = call.query.get("includeObject");
  return requested === "None" || requested === "Object" ? requested : "Metadata";
}

function toKubeObject(call: Call, replyObject: ReplyObject): KubeObject {
  return isStored(replyObject) ? viewObject(call.kind, replyObject) : replyObject;
}

function objectText(call: Call, replyObject: ReplyObject, nowMs: number): string {
  switch (call.representation.as) {
    case "object":
      return isStored(replyObject) ? readText(call.kind, replyObject) : printJson(replyObject);
    case "PartialObjectMetadata":
      return printJson(toPartial(toKubeObject(call, replyObject)));
    case "Table": {
      const object = toKubeObject(call, replyObject);
      const metadata = { resourceVersion: object.metadata.resourceVersion };
      const options = {
        kind: call.kind,
        include: parseIncludeObject(call),
        nowMs,
        includesColumns: true,
      };
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

interface ListForm {
  readonly envelope: Fields;
  readonly itemsKey: string;
  readonly toText: (item: StoredObject) => string;
}

function toListForm(call: Call, reply: ListReply, nowMs: number): ListForm {
  const { kind } = call;
  const metadata = listMetadata(reply);
  switch (call.representation.as) {
    case "object":
      return {
        envelope: { kind: kind.listKind, apiVersion: apiVersionOf(kind), metadata },
        itemsKey: "items",
        toText: (item) => readText(kind, item),
      };
    case "PartialObjectMetadata":
      return {
        envelope: {
          kind: "PartialObjectMetadataList",
          apiVersion: "meta.k8s.io/v1",
          metadata,
        },
        itemsKey: "items",
        toText: (item) => printJson(toPartial(viewObject(kind, item))),
      };
    case "Table": {
      const options = { kind, include: parseIncludeObject(call), nowMs, includesColumns: true };
      return {
        envelope: without(toTable([], metadata, options), "rows"),
        itemsKey: "rows",
        toText: (item) => printJson(toRow(viewObject(kind, item), options)),
      };
    }
  }
}

/** Renders one item at a time, which saves memory and lets the server handle other requests in between. */
async function* listPieces(form: ListForm, items: readonly StoredObject[], timeSlice: TimeSlice) {
  yield `${printJson(form.envelope).slice(0, -1)},"${form.itemsKey}":[`;
  let separator = "";
  for (const item of items) {
    yield `${separator}${form.toText(item)}`;
    separator = ",";
    if (timeSlice.isUsedUp && !(await timeSlice.waitForNext())) {
      return;
    }
  }
  yield "]}\n";
}

function listText(form: ListForm, items: readonly StoredObject[]): string {
  return `${printJson(form.envelope).slice(0, -1)},"${form.itemsKey}":[${items.map(form.toText).join(",")}]}`;
}

function isLong(items: readonly StoredObject[]): boolean {
  let length = 0;
  return items.some((item) => {
    length += item.text.length;
    return length > STREAMED_LIST_MIN_LENGTH;
  });
}

/** Renders a long list in pieces, as compact JSON. Returns undefined for all other replies. */
export function streamReply(
  call: Call,
  reply: Reply,
  context: { readonly nowMs: number; readonly timeSlice: TimeSlice },
): { readonly contentType: string; readonly pieces: AsyncIterable<string> } | undefined {
  if (reply.type !== "list" || !isLong(reply.items)) {
    return undefined;
  }
  const isYaml = call.representation.format === "yaml";
  return {
    // JSON is valid YAML, so a YAML response can have the same content.
    contentType: isYaml ? "application/yaml" : "application/json",
    pieces: listPieces(toListForm(call, reply, context.nowMs), reply.items, context.timeSlice),
  };
}

export function renderingCost(call: Call, reply: Reply): number {
  return reply.type === "object" && isStored(reply.object)
    ? reply.object.text.length
    : call.body.text.length;
}

export function formatJson(
  text: string,
  representation: Representation,
): Omit<RenderedResponse, "code"> {
  if (representation.format === "yaml") {
    return { contentType: "application/yaml", text: printYaml(text) };
  }
  const isPretty = representation.isPretty && text.length <= PRETTY_MAX_LENGTH;
  const formattedText = isPretty ? printJson(parseJson(text), 2) : text;
  return { contentType: "application/json", text: `${formattedText}\n` };
}

export function renderReply(call: Call, reply: Reply, nowMs: number): RenderedResponse {
  switch (reply.type) {
    case "object":
      return {
        code: reply.code,
        ...formatJson(objectText(call, reply.object, nowMs), call.representation),
      };
    case "fields":
      return { code: reply.code, ...formatJson(printJson(reply.fields), call.representation) };
    case "list":
      return {
        code: 200,
        ...formatJson(listText(toListForm(call, reply, nowMs), reply.items), call.representation),
      };
  }
}
