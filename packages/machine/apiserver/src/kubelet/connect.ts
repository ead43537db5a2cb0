// SPDX-License-Identifier: Apache-2.0
// Passes requests for logs of a pod, and for programs in it, on to the kubelet of its node.
import { once } from "node:events";
import type { ClientRequest, IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { messageOf } from "@patchbay/core/errors";
import {
  type Connections,
  type Peer,
  describeFailure,
  printHostPort,
} from "../backend/connections.ts";
import {
  type Forwarding,
  forwardAnswer,
  forwardedHeaders,
  openRequest,
} from "../backend/forward-request.ts";
import { isUpgrade, tunnel } from "../backend/tunnel.ts";
import { parseTarget } from "../http/target.ts";
import { StatusError, badRequest, internalError, notFound } from "../meta/status.ts";
import { listOf, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";
import { type Call, aboutOf, addressOf } from "../verbs/call.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { admitBody } from "../verbs/subresource/admit-body.ts";
import { chooseContainer, connectionOf, execParametersOf, logParametersOf } from "./parameters.ts";

/** Source: Kubernetes kubelet, default of `port`. */
const DEFAULT_PORT = 10250;

/** Kinds of addresses, in the order in which they are taken. Source: kubeadm, --kubelet-preferred-address-types. */
const PREFERRED: readonly string[] = ["InternalIP", "ExternalIP", "Hostname"];

/** The kubelet of a node; `caPem` is the authority of its certificate, which must have the node's name. Throws StatusErrors 404 and 500. */
export function kubeletOf(store: Store, nodeName: string, caPem: string): Peer {
  const node = store.find({ bucket: "/nodes", namespace: "", name: nodeName })?.view();
  if (node === undefined) {
    throw notFound({ group: "", resource: "nodes", kind: "Node" }, nodeName);
  }
  const addresses = listOf(valueAt(node, "status", "addresses"));
  const host = PREFERRED.flatMap((type) =>
    addresses.filter((address) => textAt(address, "type") === type),
  ).map((address) => textAt(address, "address"))[0];
  if (host === undefined) {
    const message = `no preferred addresses found; known addresses: []`;
    throw new StatusError({ code: 500, reason: "", message });
  }
  const port = Number(valueAt(node, "status", "daemonEndpoints", "kubeletEndpoint", "Port") ?? 0);
  const at = [{ host, port: port > 0 ? port : DEFAULT_PORT }];
  return { at, serverName: nodeName, caPem };
}

/** How kubelets are reached. */
interface Kubelets {
  /** With the certificate that this server shows to them. */
  readonly connections: Connections;
  /** Authority of their certificates. */
  readonly caPem: string;
}

/** What kubelets are reached with, and what requests for them are counted by. */
export interface KubeletDeps extends VerbDeps {
  readonly kubelets: Kubelets;
  /** Aborted when the server stops: open streams end. */
  readonly stop: AbortSignal;
}

/** The two ends of a request that a verb answers itself. */
interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** Subresources that are streams, and what a client says when it opens one. */
const STREAMS: Readonly<Record<string, string>> = {
  attach: "PodAttachOptions",
  exec: "PodExecOptions",
};

/** A refusal of a kubelet is not read further. Source: Kubernetes registry/generic/rest, maxReadLength. */
const REFUSAL_MAX_BYTES = 50_000;

/** Whether the connection of a request for this target is to be passed on when it asks for an upgrade. */
export function isPodStream(url: string): boolean {
  const target = parseTarget(url.split("?")[0] ?? "");
  return (
    target?.group === "" && target.resource === "pods" && STREAMS[target.subresource] !== undefined
  );
}

function findPod(call: Call, deps: VerbDeps): KubeObject {
  const pod = deps.store.find(addressOf(call))?.view();
  if (pod === undefined) {
    throw notFound(aboutOf(call.kind), call.name);
  }
  return pod;
}

function unreached(message: string, cause: unknown): StatusError {
  const error = new StatusError({ code: 500, reason: "", message });
  error.cause = cause;
  return error;
}

/** What is asked of a kubelet: its own verb, about one container. */
interface Question {
  readonly verb: string;
  readonly pod: KubeObject;
  readonly container: string;
  readonly parameters: URLSearchParams;
}

function forwardingOf(
  { verb, pod, container, parameters }: Question,
  { request, response }: Exchange,
  { store, kubelets }: KubeletDeps,
): Forwarding {
  const segments = [pod.metadata.namespace ?? "", pod.metadata.name, container];
  const query = parameters.size === 0 ? "" : `?${parameters.toString()}`;
  return {
    request,
    response,
    connections: kubelets.connections,
    peer: kubeletOf(store, textAt(pod, "spec", "nodeName"), kubelets.caPem),
    path: `/${verb}/${segments.map(encodeURIComponent).join("/")}${query}`,
    headersFor: (host) => forwardedHeaders(request, host),
  };
}

/** Counts a request that may last among the watches of its user, and writes down who has opened it. */
async function whileCounted(
  call: Call,
  deps: KubeletDeps,
  work: () => Promise<void>,
): Promise<void> {
  const release = deps.shares.of(call.user.name).addWatch();
  try {
    const object = `${call.namespace}/${call.name}`;
    const resource = `pods/${call.subresource}`;
    deps.logger.info("stream opened", { user: call.user.name, resource, object });
    await work();
  } finally {
    release();
  }
}

async function textOf(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer) {
    // An answer without an encoding gives buffers.
    const buffer = chunk as Buffer;
    chunks.push(buffer);
    bytes += buffer.length;
    if (bytes >= REFUSAL_MAX_BYTES) {
      break;
    }
  }
  return Buffer.concat(chunks).toString("utf8", 0, REFUSAL_MAX_BYTES);
}

/** What a kubelet refuses, in the words of this server. Source: Kubernetes registry/generic/rest, ResponseChecker. */
function refusalOf(code: number, text: string, pod: string): StatusError {
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

/** Opens the request, or says why there is no answer in the words of Go's HTTP client. */
async function open(forwarding: Forwarding): Promise<ClientRequest> {
  try {
    return await openRequest(forwarding);
  } catch (error) {
    const [at = { host: "", port: 0 }] = forwarding.peer.at;
    const url = `https://${printHostPort(at)}${forwarding.path}`;
    throw unreached(`Get ${JSON.stringify(url)}: ${messageOf(error)}`, error);
  }
}

async function answerOf(outgoing: ClientRequest, { peer }: Forwarding): Promise<IncomingMessage> {
  outgoing.end();
  try {
    // The event of a request has its answer.
    const [answer] = (await once(outgoing, "response")) as [IncomingMessage];
    return answer;
  } catch (error) {
    const [at = { host: "", port: 0 }] = peer.at;
    throw unreached(describeFailure(error, at), error);
  }
}

/** Sends a container's log as its kubelet sends it. Throws StatusErrors where the kubelet refuses or is not reached. */
async function forwardLog(forwarding: Forwarding, pod: string): Promise<void> {
  const { response } = forwarding;
  const outgoing = await open(forwarding);
  outgoing.on("error", () => {
    // A failure before the answer is answered with its cause.
    if (response.headersSent) response.destroy();
  });
  response.once("close", () => outgoing.destroy());
  const answer = await answerOf(outgoing, forwarding);
  const code = answer.statusCode ?? 0;
  if (code < 200 || code > 206) {
    throw refusalOf(code, await textOf(answer), pod);
  }
  forwardAnswer(answer, response);
  await once(response, "close");
}

/** Serves `pods/log`. Throws StatusErrors. */
export async function serveLog(call: Call, deps: KubeletDeps, exchange: Exchange): Promise<void> {
  const pod = findPod(call, deps);
  const parameters = logParametersOf(call.query, call.name);
  const container = chooseContainer(pod, call.query.get("container") ?? "");
  if (textAt(pod, "spec", "nodeName") === "") {
    exchange.response.writeHead(204).end();
    return;
  }
  const question = { verb: "containerLogs", pod, container, parameters } as const;
  const forwarding = forwardingOf(question, exchange, deps);
  await whileCounted(call, deps, () => forwardLog(forwarding, call.name));
}

async function untilClosed(socket: Socket): Promise<void> {
  if (!socket.closed) {
    await once(socket, "close");
  }
}

/** Serves `pods/exec` and `pods/attach`; admission is asked before. Throws StatusErrors. */
export async function serveStream(
  call: Call,
  deps: KubeletDeps,
  exchange: Exchange,
): Promise<void> {
  const verb = call.subresource;
  const kind = { group: "", version: "v1", kind: STREAMS[verb] ?? "" };
  await admitBody(call, deps, { kind, body: connectionOf(call.query), operation: "CONNECT" });
  const pod = findPod(call, deps);
  const container = chooseContainer(pod, call.query.get("container") ?? "");
  if (textAt(pod, "spec", "nodeName") === "") {
    throw badRequest(`pod ${call.name} does not have a host assigned`);
  }
  const parameters = execParametersOf(call.query);
  const forwarding = forwardingOf({ verb, pod, container, parameters }, exchange, deps);
  if (!isUpgrade(exchange.request)) {
    throw badRequest("Upgrade request required");
  }
  await whileCounted(call, deps, async () => {
    try {
      await tunnel(forwarding, deps.stop);
    } catch (error) {
      throw unreached(`error dialing backend: ${messageOf(error)}`, error);
    }
    await untilClosed(exchange.request.socket);
  });
}
