// SPDX-License-Identifier: Apache-2.0
import type { IncomingMessage } from "node:http";
import { messageOf } from "@patchbay/base";
import { extentFault } from "../objects/extent.ts";
import { type Fields, isFields, parseJson, printJson } from "../objects/json.ts";
import { isTooLong, parseYaml } from "../objects/yaml.ts";
import { decodeProtobuf } from "../protobuf/decode.ts";
import { StatusError, badRequest, tooLarge, unsupportedMediaType } from "../meta/status.ts";

/** Maximum size of a body. Source: Kubernetes apiserver MaxRequestBodyBytes. */
const BODY_MAX_BYTES = 3 * 1024 * 1024;

const PROTOBUF = "application/vnd.kubernetes.protobuf";
const OBJECT_TYPES: readonly string[] = ["application/json", "application/yaml"];

export function expectedBytes({ headers }: Pick<IncomingMessage, "headers">): number {
  const length = Number(headers["content-length"] ?? 0);
  const isKnown = headers["transfer-encoding"] === undefined && Number.isSafeInteger(length);
  return isKnown ? Math.min(length, BODY_MAX_BYTES) : BODY_MAX_BYTES;
}

export interface Body {
  readonly text: string;
  /** Media type in lower case, without parameters; empty if the header is missing. */
  readonly contentType: string;
}

function decodeProtobufBody(receivedBytes: Buffer, subresource: string): Body {
  const decodedFields = decodeFields(receivedBytes, subresource);
  if (decodedFields === undefined) {
    throw unsupportedMediaType(PROTOBUF, OBJECT_TYPES);
  }
  return { text: printJson(decodedFields), contentType: "application/json" };
}

function decodeFields(receivedBytes: Buffer, subresource: string): Fields | undefined {
  try {
    return decodeProtobuf(receivedBytes, subresource);
  } catch (error) {
    throw error instanceof StatusError ? error : badRequest(messageOf(error));
  }
}

/**
 * Reads the body of a request, and decodes protobuf. Throws a StatusError for a malformed (400), too large (413) or unsupported (415) body.
 */
export async function readBody(request: IncomingMessage, subresource = ""): Promise<Body> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    const buffer = chunk as Buffer;
    bytes += buffer.length;
    if (bytes <= BODY_MAX_BYTES) {
      chunks.push(buffer);
    }
  }
  if (bytes > BODY_MAX_BYTES) {
    throw tooLarge(`limit is ${String(BODY_MAX_BYTES)}`);
  }
  const header = request.headers["content-type"] ?? "";
  const contentType = (header.split(";")[0] ?? "").trim().toLowerCase();
  const receivedBytes = Buffer.concat(chunks);
  return contentType === PROTOBUF && receivedBytes.length > 0
    ? decodeProtobufBody(receivedBytes, subresource)
    : { text: receivedBytes.toString("utf8"), contentType };
}

function checkSize(text: string, isYaml: boolean): void {
  const fault = extentFault(text);
  if (fault === "deep") {
    throw badRequest("couldn't get version/kind; json parse error: exceeded max depth");
  }
  if (fault === "many" || (isYaml && isTooLong(text))) {
    throw tooLarge("the object has too many fields");
  }
}

/** Parses JSON or YAML. @throws StatusError 400 or 413 */
export function parseText(text: string, contentType: string): unknown {
  const isYaml = contentType === "application/yaml" || contentType.endsWith("+yaml");
  checkSize(text, isYaml);
  try {
    return isYaml ? parseYaml(text) : parseJson(text);
  } catch (error) {
    throw badRequest(`couldn't get version/kind; json parse error: ${messageOf(error)}`);
  }
}

/** Parses the body as an object. @throws StatusError 400, 413 or 415 */
export function parseObject(body: Body): Fields {
  if (body.contentType !== "" && !OBJECT_TYPES.includes(body.contentType)) {
    throw unsupportedMediaType(body.contentType, OBJECT_TYPES);
  }
  if (body.text === "") {
    throw badRequest("unexpected end of JSON input: the body is empty");
  }
  const value = parseText(body.text, body.contentType);
  if (!isFields(value)) {
    throw badRequest("couldn't get version/kind; the body is not an object");
  }
  return value;
}
