// SPDX-License-Identifier: Apache-2.0
// Finds unknown and duplicate fields of request bodies, and rejects them or warns about them. Source: Kubernetes "Field validation".
import { parseObject } from "../../http/body.ts";
import { badRequest } from "../../meta/status.ts";
import type { KubeObject } from "../../objects/object.ts";
import { type Call, queueIfHeavy } from "../call.ts";
import type { VerbDeps } from "../deps.ts";
import { decodeObject } from "../decode.ts";

const JSON_TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],]/g;

interface Frame {
  readonly path: string;
  /** Keys of the object that were already read; undefined for an array. */
  readonly keys: Set<string> | undefined;
  key: string;
  index: number;
  expectsKey: boolean;
}

function currentPath(frame: Frame | undefined): string {
  if (frame === undefined) {
    return "";
  }
  if (frame.keys === undefined) {
    return `${frame.path}[${String(frame.index)}]`;
  }
  return frame.path === "" ? frame.key : `${frame.path}.${frame.key}`;
}

function openFrame(token: string, parent: Frame | undefined): Frame {
  const isObject = token === "{";
  return {
    path: currentPath(parent),
    keys: isObject ? new Set() : undefined,
    key: "",
    index: 0,
    expectsKey: isObject,
  };
}

/** Reads an object's key. Returns the key's path if the object already has the same key. */
function readKey(frame: Frame, token: string): string | undefined {
  // Calls JSON.parse, which is slow, only for the few keys that contain escapes.
  frame.key = token.includes("\\") ? (JSON.parse(token) as string) : token.slice(1, -1);
  frame.expectsKey = false;
  const isDuplicate = frame.keys?.has(frame.key) === true;
  frame.keys?.add(frame.key);
  return isDuplicate ? currentPath(frame) : undefined;
}

function nextItem(frame: Frame | undefined): void {
  if (frame !== undefined) {
    frame.index += 1;
    frame.expectsKey = frame.keys !== undefined;
  }
}

/** Returns the paths of duplicate fields, such as `spec.tags[1].a`, in the order of `text`, which must be valid JSON. */
export function findDuplicateFields(text: string): readonly string[] {
  const duplicates: string[] = [];
  const stack: Frame[] = [];
  for (const [token] of text.matchAll(JSON_TOKEN)) {
    const currentFrame = stack.at(-1);
    if (token === "{" || token === "[") {
      stack.push(openFrame(token, currentFrame));
    } else if (token === "}" || token === "]") {
      stack.pop();
    } else if (token === ",") {
      nextItem(currentFrame);
    } else if (currentFrame?.expectsKey === true) {
      const duplicate = readKey(currentFrame, token);
      duplicates.push(...(duplicate === undefined ? [] : [duplicate]));
    }
  }
  return duplicates;
}

/** Maximum number of errors that a decoder reports. Source: Kubernetes apimachinery. */
const REPORTED_FIELDS_MAX = 100;
/** Maximum length of a path in an error, in characters. Longer paths are truncated, because the client chooses the keys in a path. */
const PATH_MAX_LENGTH = 256;

type Mode = "Ignore" | "Strict" | "Warn";

/** Returns the mode of the field validation, Warn by default. The caller must have rejected invalid modes with checkWriteOptions. */
function parseMode(call: Call): Mode {
  const mode = call.query.get("fieldValidation");
  return mode === "Ignore" || mode === "Strict" ? mode : "Warn";
}

function duplicatesInBody(call: Call): readonly string[] {
  const { text, contentType } = call.body;
  return contentType.endsWith("yaml") ? [] : findDuplicateFields(text);
}

function truncatePath(path: string): string {
  return path.length > PATH_MAX_LENGTH ? `${path.slice(0, PATH_MAX_LENGTH)}...` : path;
}

/** Rejects unknown and duplicate fields, or warns about them, according to fieldValidation. @throws StatusError 400 */
export function checkFields(call: Call, unknownPaths: readonly string[]): void {
  const mode = parseMode(call);
  if (mode === "Ignore") {
    return;
  }
  const faults = [
    ...duplicatesInBody(call).map((path) => ({ fault: "duplicate", path })),
    ...unknownPaths.map((path) => ({ fault: "unknown", path })),
  ];
  const messages = faults
    .slice(0, REPORTED_FIELDS_MAX)
    .map(({ fault, path }) => `${fault} field "${truncatePath(path)}"`);
  if (mode !== "Strict") {
    call.warnings.push(...messages);
  } else if (messages.length > 0) {
    const { kind, version } = call.kind;
    throw badRequest(
      `${kind} in version "${version}" cannot be handled as a ${kind}: strict decoding error: ${messages.join(", ")}`,
    );
  }
}

export function addKindWarnings(call: Call, object: KubeObject): void {
  call.warnings.push(...(call.kind.strategy.warnings?.(object) ?? []));
}

export async function readRequestObject(
  call: Call,
  deps: Pick<VerbDeps, "fairQueue" | "quotas">,
): Promise<KubeObject> {
  const fields = parseObject(call.body);
  await queueIfHeavy(call, deps, call.body.text.length);
  const { object, unknownPaths } = decodeObject(call.kind, fields);
  await queueIfHeavy(call, deps, call.body.text.length);
  checkFields(call, unknownPaths);
  addKindWarnings(call, object);
  return object;
}
