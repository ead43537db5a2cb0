// SPDX-License-Identifier: Apache-2.0
// Child process that calls a hook over gRPC, without privileges and with limits on received messages. The parent kills
// a child that misses a deadline.
import { fileURLToPath } from "node:url";
import {
  Client,
  credentials,
  type MethodDefinition,
  type ServiceDefinition,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { messageOf } from "@patchbay/base";
import type { ChildChannel, HookVersion } from "@patchbay/core/interfaces";
import {
  ANSWER_BYTES_MAX,
  type HookCall,
  type HookRequest,
  type Reply,
  SOCKET_TOKEN,
} from "./messages.ts";

type ServiceName = "kubevirt.hooks.info.Info" | `kubevirt.hooks.${HookVersion}.Callbacks`;

function loadProto(file: string, name: ServiceName): ServiceDefinition {
  const path = fileURLToPath(new URL(`../proto/${file}`, import.meta.url));
  return loadSync(path, { defaults: true })[name] as ServiceDefinition;
}

export function loadInfo(): ServiceDefinition {
  return loadProto("info.proto", "kubevirt.hooks.info.Info");
}

export function loadCallbacks(version: HookVersion): ServiceDefinition {
  return loadProto(`${version}.proto`, `kubevirt.hooks.${version}.Callbacks`);
}

/** Maximum memory of an HTTP/2 session, in MiB. Source: Node.js http2, maxSessionMemory */
const SESSION_MIB = 4;

const OPTIONS = {
  "grpc.enable_http_proxy": 0,
  "grpc.use_local_subchannel_pool": 1,
  "grpc.enable_retries": 0,
  "grpc.max_receive_message_length": ANSWER_BYTES_MAX,
  "grpc-node.max_session_memory": SESSION_MIB,
};

// Loads the proto files before the process drops its privileges, because only root may be able to read them.
const info = loadInfo();
const callbacks: Readonly<Record<HookVersion, ServiceDefinition>> = {
  v1alpha2: loadCallbacks("v1alpha2"),
  v1alpha3: loadCallbacks("v1alpha3"),
};

function findService(call: HookCall): ServiceDefinition {
  if (call.method === "Info") return info;
  return callbacks[call.method === "Shutdown" ? "v1alpha3" : call.version];
}

function buildRequest(call: HookCall): object {
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

/** Converts byte fields to strings, because messages to the parent are JSON. */
function bytesToText(answer: unknown): object {
  const entries = Object.entries(answer as object).map(([name, value]) => [
    name,
    Buffer.isBuffer(value) ? value.toString("utf8") : (value as unknown),
  ]);
  return Object.fromEntries(entries) as object;
}

function callHook(client: Client, { call, deadline }: HookRequest): Promise<object> {
  const { promise, resolve, reject } = Promise.withResolvers<object>();
  const method = findService(call)[call.method] as MethodDefinition<object, unknown>;
  const { path, requestSerialize: serialize, responseDeserialize: deserialize } = method;
  const onAnswer = (error: ServiceError | null, response?: unknown): void => {
    if (error === null) resolve(bytesToText(response));
    else reject(error);
  };
  client.makeUnaryRequest(path, serialize, deserialize, buildRequest(call), { deadline }, onAnswer);
  return promise;
}

function toFailure(error: unknown): Extract<Reply, { failure: unknown }>["failure"] {
  const { code, details } = error as Partial<ServiceError>; // Only gRPC errors have these fields.
  return { status: status[code ?? status.UNKNOWN], reason: details ?? messageOf(error) };
}

export function main(channel: ChildChannel): void {
  let client: Client | undefined;
  channel.onMessage((message) => {
    const request = message as HookRequest; // The message is not validated, because the child trusts its parent.
    if (client === undefined) {
      const { fd } = channel.claimDescriptor(SOCKET_TOKEN);
      const address = `unix:/proc/self/fd/${String(fd)}`;
      client = new Client(address, credentials.createInsecure(), OPTIONS);
    }
    const { id } = request;
    callHook(client, request).then(
      (answer) => {
        channel.send({ id, answer });
      },
      (error: unknown) => {
        channel.send({ id, failure: toFailure(error) });
      },
    );
  });
}
