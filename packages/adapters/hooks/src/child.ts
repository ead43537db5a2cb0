// SPDX-License-Identifier: Apache-2.0
// The child: speaks gRPC to one hook, without any privilege; decides nothing. What it holds in memory of a hook that sends
// more and more is bounded, and its parent ends it at the deadline.
import {
  Client,
  credentials,
  status,
  type MethodDefinition,
  type ServiceDefinition,
  type ServiceError,
} from "@grpc/grpc-js";
import { messageOf } from "@patchbay/core/errors";
import type { ChildChannel, HookVersion } from "@patchbay/core/ports";
import {
  ANSWER_BYTES_MAX,
  SOCKET_TOKEN,
  type HookCall,
  type Question,
  type Reply,
} from "./messages.ts";
import { loadCallbacks, loadInfo } from "./services.ts";

/** Of one session of HTTP/2, MiB: headers and what waits to be read. Source: Node.js http2 maxSessionMemory. */
const SESSION_MIB = 4;

const OPTIONS = {
  "grpc.enable_http_proxy": 0,
  "grpc.use_local_subchannel_pool": 1,
  "grpc.enable_retries": 0,
  "grpc.max_receive_message_length": ANSWER_BYTES_MAX,
  "grpc-node.max_session_memory": SESSION_MIB,
};

// Before privileges are dropped, so that the files may be readable for root only.
const info = loadInfo();
const callbacks: Readonly<Record<HookVersion, ServiceDefinition>> = {
  v1alpha2: loadCallbacks("v1alpha2"),
  v1alpha3: loadCallbacks("v1alpha3"),
};

function serviceOf(call: HookCall): ServiceDefinition {
  if (call.method === "Info") return info;
  return callbacks[call.method === "Shutdown" ? "v1alpha3" : call.version];
}

function paramsOf(call: HookCall): object {
  switch (call.method) {
    case "OnDefineDomain":
      return { domainXML: Buffer.from(call.domainXml), vmi: Buffer.from(call.vmi) };
    case "PreCloudInitIso":
      return {
        cloudInitData: Buffer.from(call.data),
        cloudInitNoCloudSource: Buffer.from(call.noCloudSource),
        vmi: Buffer.from(call.vmi),
      };
    case "Info":
    case "Shutdown":
      return {};
  }
}

/** Bytes as text, so that they can be said. */
function asText(answer: unknown): object {
  const entries = Object.entries(answer as object).map(([name, value]) => [
    name,
    Buffer.isBuffer(value) ? value.toString("utf8") : (value as unknown),
  ]);
  return Object.fromEntries(entries) as object; // of names
}

function ask(client: Client, { call, deadline }: Question): Promise<object> {
  const { promise, resolve, reject } = Promise.withResolvers<object>();
  // Its types are those of the .proto.
  const method = serviceOf(call)[call.method] as MethodDefinition<object, unknown>;
  const { path, requestSerialize: to, responseDeserialize: from } = method;
  const answer = (error: ServiceError | null, response?: unknown): void => {
    if (error === null) resolve(asText(response));
    else reject(error);
  };
  client.makeUnaryRequest(path, to, from, paramsOf(call), { deadline }, answer);
  return promise;
}

function failureOf(error: unknown): Extract<Reply, { failure: unknown }>["failure"] {
  const { code, details } = error as Partial<ServiceError>; // or another error, which has neither
  return { status: status[code ?? status.UNKNOWN], reason: details ?? messageOf(error) };
}

/** Runs in the child once privileges are gone. */
export function main(channel: ChildChannel): void {
  let client: Client | undefined;
  channel.onMessage((message) => {
    const question = message as Question; // the parent is trusted
    if (client === undefined) {
      const { fd } = channel.takeDescriptor(SOCKET_TOKEN);
      const address = `unix:/proc/self/fd/${String(fd)}`;
      client = new Client(address, credentials.createInsecure(), OPTIONS);
    }
    const { id } = question;
    ask(client, question).then(
      (answer) => {
        channel.send({ id, answer });
      },
      (error: unknown) => {
        channel.send({ id, failure: failureOf(error) });
      },
    );
  });
}
