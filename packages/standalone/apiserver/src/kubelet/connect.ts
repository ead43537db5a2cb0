// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import type { ClientRequest, IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { messageOf } from "@patchbay/base";
import {
  type Connections,
  type Peer,
  describeFailure,
  printHostPort,
} from "../backend/connections.ts";
import {
  type Forwarding,
  forwardResponse,
  forwardedHeaders,
  openRequest,
} from "../backend/forward-request.ts";
import { isUpgrade, tunnel } from "../backend/tunnel.ts";
import { parseTarget } from "../http/target.ts";
import { StatusError, badRequest, internalError, notFound } from "../meta/status.ts";
import { asList, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";
import { type Call, toResourceRef, toAddress } from "../verbs/call.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { admitBody } from "../verbs/subresource/admit-body.ts";
import {
  chooseContainer,
  toConnectOptions,
  toExecParameters,
  toLogParameters,
} from "./parameters.ts";

/** Port of a kubelet if the node's status has no port. Source: kubelet, default of `port`. */
const DEFAULT_KUBELET_PORT = 10250;

/** Address types in order of preference. Source: kubeadm, --kubelet-preferred-address-types. */
const PREFERRED_ADDRESS_TYPES: readonly string[] = ["InternalIP", "ExternalIP", "Hostname"];

/** Returns the address of the node's kubelet, whose certificate must contain the node's name. @throws StatusError 404 or 500 */
export function findKubelet(store: Store, nodeName: string, caPem: string): Peer {
  const node = store.find({ bucket: "/nodes", namespace: "", name: nodeName })?.view();
  if (node === undefined) {
    throw notFound({ group: "", resource: "nodes", kind: "Node" }, nodeName);
  }
  const addresses = asList(valueAt(node, "status", "addresses"));
  const host = PREFERRED_ADDRESS_TYPES.flatMap((type) =>
    addresses.filter((address) => textAt(address, "type") === type),
  ).map((address) => textAt(address, "address"))[0];
  if (host === undefined) {
    const message = `no preferred addresses found; known addresses: []: node ${nodeName} reports no address in its status, so its pods cannot be reached; check that its kubelet runs`;
    throw new StatusError({ code: 500, reason: "", message });
  }
  const port = Number(valueAt(node, "status", "daemonEndpoints", "kubeletEndpoint", "Port") ?? 0);
  const address = { host, port: port > 0 ? port : DEFAULT_KUBELET_PORT };
  return { addresses: [address], serverName: nodeName, caPem };
}

interface Kubelets {
  readonly connections: Connections;
  readonly caPem: string;
}

export interface KubeletDeps extends VerbDeps {
  readonly kubelets: Kubelets;
  readonly stop: AbortSignal;
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** Kinds of the options objects that admission receives, by subresource. */
const STREAM_OPTION_KINDS: Readonly<Record<string, string>> = {
  attach: "PodAttachOptions",
  exec: "PodExecOptions",
};

/** Maximum length of an error text from a kubelet. Source: Kubernetes registry/generic/rest, maxReadLength. */
const ERROR_TEXT_MAX_BYTES = 50_000;

export function isPodStream(url: string): boolean {
  const target = parseTarget(url.split("?")[0] ?? "");
  return (
    target?.group === "" &&
    target.resource === "pods" &&
    STREAM_OPTION_KINDS[target.subresource] !== undefined
  );
}

function findPod(call: Call, deps: VerbDeps): KubeObject {
  const pod = deps.store.find(toAddress(call))?.view();
  if (pod === undefined) {
    throw notFound(toResourceRef(call.kind), call.name);
  }
  return pod;
}

function kubeletError(message: string, cause: unknown): StatusError {
  const error = new StatusError({ code: 500, reason: "", message });
  error.cause = cause;
  return error;
}

interface KubeletRequest {
  readonly verb: string;
  readonly pod: KubeObject;
  readonly container: string;
  readonly parameters: URLSearchParams;
}

function toForwarding(
  { verb, pod, container, parameters }: KubeletRequest,
  { request, response }: Exchange,
  { store, kubelets }: KubeletDeps,
): Forwarding {
  const segments = [pod.metadata.namespace ?? "", pod.metadata.name, container];
  const query = parameters.size === 0 ? "" : `?${parameters.toString()}`;
  return {
    request,
    response,
    connections: kubelets.connections,
    peer: findKubelet(store, textAt(pod, "spec", "nodeName"), kubelets.caPem),
    path: `/${verb}/${segments.map(encodeURIComponent).join("/")}${query}`,
    headersFor: (host) => forwardedHeaders(request, host),
  };
}

async function countAsWatch(
  call: Call,
  deps: KubeletDeps,
  work: () => Promise<void>,
): Promise<void> {
  const release = deps.quotas.addWatch(call.user);
  try {
    const object = `${call.namespace}/${call.name}`;
    const resource = `pods/${call.subresource}`;
    deps.logger.info("stream opened", { user: call.user.name, resource, object });
    await work();
  } finally {
    release();
  }
}

async function readErrorText(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    const buffer = chunk as Buffer;
    chunks.push(buffer);
    bytes += buffer.length;
    if (bytes >= ERROR_TEXT_MAX_BYTES) {
      break;
    }
  }
  return Buffer.concat(chunks).toString("utf8", 0, ERROR_TEXT_MAX_BYTES);
}

/** Converts the kubelet's error response to a StatusError. Source: Kubernetes registry/generic/rest, ResponseChecker. */
function toStatusError(code: number, text: string, pod: string): StatusError {
  if (code === 400) {
    return badRequest(text.trimEnd());
  }
  if (code === 500) {
    return internalError(text.trimEnd());
  }
  const message =
    code === 404
      ? `the server could not find the requested resource ( pods/log ${pod})`
      : `the server responded with the status code ${String(code)} but did not return more information ( pods/log ${pod})`;
  const cause = { reason: "UnexpectedServerResponse", message: text.trimEnd() } as const;
  const details = { name: pod, kind: "pods/log", causes: [cause] };
  return new StatusError({ code, reason: code === 404 ? "NotFound" : "", message, details });
}

/** Opens a log request. @throws StatusError 500 on failure, with a message like that of Go's HTTP client */
async function openLogRequest(forwarding: Forwarding): Promise<ClientRequest> {
  try {
    return await openRequest(forwarding);
  } catch (error) {
    const [address = { host: "", port: 0 }] = forwarding.peer.addresses;
    const url = `https://${printHostPort(address)}${forwarding.path}`;
    throw kubeletError(`Get ${JSON.stringify(url)}: ${messageOf(error)}`, error);
  }
}

async function awaitResponse(
  kubeletRequest: ClientRequest,
  { peer }: Forwarding,
): Promise<IncomingMessage> {
  kubeletRequest.end();
  try {
    const [response] = (await once(kubeletRequest, "response")) as [IncomingMessage];
    return response;
  } catch (error) {
    const [address = { host: "", port: 0 }] = peer.addresses;
    throw kubeletError(describeFailure(error, address), error);
  }
}

async function forwardLog(forwarding: Forwarding, pod: string): Promise<void> {
  const { response } = forwarding;
  const kubeletRequest = await openLogRequest(forwarding);
  kubeletRequest.on("error", () => {
    // `awaitResponse` reports errors that occur before the response, so this listener handles only later errors.
    if (response.headersSent) response.destroy();
  });
  response.once("close", () => kubeletRequest.destroy());
  const kubeletResponse = await awaitResponse(kubeletRequest, forwarding);
  const code = kubeletResponse.statusCode ?? 0;
  if (code < 200 || code > 206) {
    throw toStatusError(code, await readErrorText(kubeletResponse), pod);
  }
  forwardResponse(kubeletResponse, response);
  await once(response, "close");
}

export async function serveLog(call: Call, deps: KubeletDeps, exchange: Exchange): Promise<void> {
  const pod = findPod(call, deps);
  const parameters = toLogParameters(call.query, call.name);
  const container = chooseContainer(pod, call.query.get("container") ?? "");
  if (textAt(pod, "spec", "nodeName") === "") {
    exchange.response.writeHead(204).end();
    return;
  }
  const request = { verb: "containerLogs", pod, container, parameters } as const;
  const forwarding = toForwarding(request, exchange, deps);
  await countAsWatch(call, deps, () => forwardLog(forwarding, call.name));
}

async function waitForClose(socket: Socket): Promise<void> {
  if (!socket.closed) {
    await once(socket, "close");
  }
}

export async function serveStream(
  call: Call,
  deps: KubeletDeps,
  exchange: Exchange,
): Promise<void> {
  const verb = call.subresource;
  const kind = { group: "", version: "v1", kind: STREAM_OPTION_KINDS[verb] ?? "" };
  await admitBody(call, deps, { kind, body: toConnectOptions(call.query), operation: "CONNECT" });
  const pod = findPod(call, deps);
  const container = chooseContainer(pod, call.query.get("container") ?? "");
  if (textAt(pod, "spec", "nodeName") === "") {
    throw badRequest(`pod ${call.name} does not have a host assigned`);
  }
  const parameters = toExecParameters(call.query);
  const forwarding = toForwarding({ verb, pod, container, parameters }, exchange, deps);
  if (!isUpgrade(exchange.request)) {
    throw badRequest("Upgrade request required");
  }
  await countAsWatch(call, deps, async () => {
    try {
      await tunnel(forwarding, deps.stop);
    } catch (error) {
      throw kubeletError(`error dialing backend: ${messageOf(error)}`, error);
    }
    await waitForClose(exchange.request.socket);
  });
}
