// SPDX-License-Identifier: Apache-2.0
// The way to a guest: the virt-handler of its node, each side known by its certificate.
import { request as httpsRequest } from "node:https";
import {
  AppError,
  doctorPath,
  GUEST_REQUESTS,
  guestPath,
  HANDLER_SERVER_NAME,
  messageOf,
  type GuestRequest,
} from "@patchbay/core";
import { parseJson } from "@patchbay/api";
import type { ObjectKey } from "@patchbay/core/ports";
import type { FindHandler, HandlerAddress } from "./address.ts";
import type { HandlerCredentials, ReadCredentials } from "./credentials.ts";

/** What it answered; an object, also where it refuses. */
export interface HandlerAnswer {
  readonly code: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/**
 * Asks the virt-handler of a node.
 * @throws AppError with API_NODE_UNREACHABLE where it is not there, does not answer in time, or is not who it must be
 */
export type AskHandler = (
  node: string,
  key: ObjectKey,
  request: GuestRequest | DoctorRequest,
) => Promise<HandlerAnswer>;

/** What a guest is asked through its node's doctor. */
export interface DoctorRequest {
  /** Name of the interface that is examined. */
  readonly examine: string;
}

/** Ways to the virt-handlers. */
export interface HandlerWays {
  readonly find: FindHandler;
  readonly credentials: ReadCredentials;
}

/** libvirt's own deadlines are shorter. Source: KubeVirt's client of virt-handler. */
const TIMEOUT_MS = 10_000;
/** Longest answer that is read, characters. */
const ANSWER_MAX = 1024 * 1024;

interface Question extends HandlerAddress {
  readonly path: string;
  readonly method: string;
  readonly credentials: HandlerCredentials;
}

function exchange({ host, port, path, method, credentials }: Question): Promise<[number, string]> {
  const { certPem: cert, keyPem: key, caPem: ca } = credentials;
  const { promise, resolve, reject } = Promise.withResolvers<[number, string]>();
  const call = httpsRequest(
    {
      host,
      port,
      path,
      method,
      cert,
      key,
      ca,
      servername: HANDLER_SERVER_NAME,
      signal: AbortSignal.timeout(TIMEOUT_MS),
      // The certificate counts for this connection; the next one may be another.
      agent: false,
    },
    (response) => {
      let said = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        said += chunk;
        if (said.length > ANSWER_MAX) call.destroy(new Error("the answer is too long"));
      });
      response.on("end", () => {
        resolve([response.statusCode ?? 0, said]);
      });
    },
  );
  call.on("error", reject).end();
  return promise;
}

/** What a virt-handler has written; empty where it is no object. */
export function parseAnswer(text: string): HandlerAnswer["body"] {
  const parsed = parseJson(text);
  return typeof parsed === "object" && parsed !== null && !Array.isArray(parsed)
    ? (parsed as HandlerAnswer["body"]) // an object, of whatever members
    : {};
}

/**
 * Does something with the virt-handler of a node.
 * @throws AppError with API_NODE_UNREACHABLE where none is there, and for whatever `use` throws
 */
export async function reachHandler<T>(
  { find, credentials }: HandlerWays,
  node: string,
  use: (address: HandlerAddress, credentials: HandlerCredentials) => Promise<T>,
): Promise<T> {
  const unreachable = (reason: string, cause?: unknown): AppError =>
    new AppError("API_NODE_UNREACHABLE", { node, reason }, { cause });
  const address = await find(node);
  if (address === undefined) throw unreachable("no virt-handler runs there");
  try {
    return await use(address, await credentials());
  } catch (error) {
    throw unreachable(messageOf(error), error);
  }
}

function pathOf(
  key: ObjectKey,
  request: GuestRequest | DoctorRequest,
): Pick<Question, "path" | "method"> {
  if (typeof request !== "string") {
    return { path: doctorPath(key, request.examine), method: "GET" };
  }
  return { path: guestPath(key, request), method: GUEST_REQUESTS[request].toUpperCase() };
}

/** Makes it. */
export function createAskHandler(ways: HandlerWays): AskHandler {
  return (node, key, request) =>
    reachHandler(ways, node, async (address, credentials) => {
      const asked = pathOf(key, request);
      const question = { ...address, ...asked, credentials };
      const [code, text] = await exchange(question);
      return { code, body: parseAnswer(text) };
    });
}
