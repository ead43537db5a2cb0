// SPDX-License-Identifier: Apache-2.0
// gRPC over a unix socket: services of .proto files as functions that return promises, with deadlines.
import { fileURLToPath } from "node:url";
import {
  Channel,
  Client,
  connectivityState,
  credentials,
  Metadata,
  type CallOptions,
  type ClientReadableStream,
  type MethodDefinition,
  type ServiceDefinition,
  type ServiceError,
} from "@grpc/grpc-js";
import { loadSync, type PackageDefinition } from "@grpc/proto-loader";
import type { Clock } from "@patchbay/core/ports";
import { toCriError } from "./errors.ts";

/** How messages are read: numbers of 64 bits as text, enumerations by name, what is absent as its default or null. */
const MESSAGE_FORMAT = { longs: String, enums: String, defaults: true } as const;

/** As large as a kubelet takes them, bytes. Source: kubelet remote runtime, maxMsgSize. */
const MESSAGE_BYTES_MAX = 16 * 1024 * 1024;

/** Where programs of tenants write the answer, bytes: longer ones are not received. A kubelet keeps 10 KiB of them. */
const SAID_BYTES_MAX = 64 * 1024;

/** A runtime that was away is found again at most this late, milliseconds. */
const RECONNECT_MS_MAX = 500;

const CHANNEL_OPTIONS = {
  "grpc.initial_reconnect_backoff_ms": 50,
  "grpc.min_reconnect_backoff_ms": 50,
  "grpc.max_reconnect_backoff_ms": RECONNECT_MS_MAX,
  "grpc.enable_http_proxy": 0,
  "grpc.use_local_subchannel_pool": 1,
};

/** Source: containerd namespaces, GRPCHeader. */
const NAMESPACE_HEADER = "containerd-namespace";

/** Services that are spoken, and the .proto that names each. */
const SERVICES = {
  "runtime.v1.RuntimeService": "cri.proto",
  "runtime.v1.ImageService": "cri.proto",
  "containerd.services.events.v1.Events": "containerd-events.proto",
  "containerd.services.tasks.v1.Tasks": "containerd-tasks.proto",
} as const;

/** Name of a service on the wire. */
export type ServiceName = keyof typeof SERVICES;

/** One call: what it is named on the wire, and what is sent. */
export interface Call {
  readonly service: ServiceName;
  readonly method: string;
  readonly request: object;
  /** Of containerd's own services: whose containers are meant. */
  readonly namespace?: string;
  /** Cancels it. */
  readonly signal?: AbortSignal;
  /** Programs of tenants write the answer: a long one is the error RESOURCE_EXHAUSTED. */
  readonly isTenants?: boolean;
}

/** What a stream tells. */
export interface StreamEars<Message> {
  message(message: Message): void;
  /** It is over: with its error, or undefined when the other side has ended it. */
  ended(error: unknown): void;
}

/** One endpoint. Connects at the first call, and again whenever it has to. */
export interface Endpoint {
  /** `unix:///…` */
  readonly address: string;
  /** @throws AppError with CRI_UNAVAILABLE, CRI_FAILED or CRI_TIMED_OUT */
  call<Response>(call: Call, timeoutMs: number): Promise<Response>;
  /** Returns what ends the stream. */
  stream<Message>(call: Call, ears: StreamEars<Message>): () => void;
  close(): void;
}

type Method = MethodDefinition<object, unknown>;

const loaded = new Map<string, PackageDefinition>();

function load(file: string): PackageDefinition {
  const found = loaded.get(file);
  if (found !== undefined) return found;
  const path = fileURLToPath(new URL(`../proto/${file}`, import.meta.url));
  const definition = loadSync(path, MESSAGE_FORMAT);
  loaded.set(file, definition);
  return definition;
}

function methodOf({ service, method }: Call): Method {
  const definition = load(SERVICES[service])[service] as ServiceDefinition | undefined; // by its name a service
  const found = definition?.[method];
  if (found === undefined) throw new Error(`${service} has no method ${method}`);
  return found as Method; // its types are those of the .proto
}

/** A channel that receives messages of so many bytes, and the client of it. Connects at the first call. */
function openChannel(address: string, bytesMax: number) {
  const options = { ...CHANNEL_OPTIONS, "grpc.max_receive_message_length": bytesMax };
  const channel = new Channel(address, credentials.createInsecure(), options);
  const client = new Client(address, credentials.createInsecure(), { channelOverride: channel });
  return { channel, client };
}

/** Opens an endpoint; nothing is sent yet. */
export function openEndpoint(address: string, clock: Pick<Clock, "now">): Endpoint {
  const { channel, client } = openChannel(address, MESSAGE_BYTES_MAX);
  const tenants = openChannel(address, SAID_BYTES_MAX);
  const wordOf = (error: unknown, method: string, timeoutMs: number): Error => {
    const isConnected = channel.getConnectivityState(false) === connectivityState.READY;
    return toCriError(error, { method, timeoutMs, endpoint: address, isConnected });
  };
  return {
    address,
    call: async <Response>(call: Call, timeoutMs: number) => {
      try {
        const options = { deadline: clock.now() + timeoutMs };
        const asked = call.isTenants === true ? tenants.client : client;
        return (await ask(asked, call, options)) as Response; // as the .proto says
      } catch (error) {
        throw wordOf(error, call.method, timeoutMs);
      }
    },
    stream: <Message>(call: Call, ears: StreamEars<Message>) => {
      const messages = openStream(client, call);
      messages.on("data", (message: Message) => {
        ears.message(message);
      });
      messages.once("error", (error) => {
        ears.ended(wordOf(error, call.method, 0));
      });
      messages.once("end", () => {
        ears.ended(undefined);
      });
      return () => {
        messages.cancel();
      };
    },
    close: () => {
      client.close();
      channel.close();
      tenants.client.close();
      tenants.channel.close();
    },
  };
}

function openStream(client: Client, call: Call): ClientReadableStream<unknown> {
  const { path, requestSerialize, responseDeserialize } = methodOf(call);
  return client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, call.request);
}

function ask(client: Client, call: Call, options: CallOptions): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers();
  const answer = (error: ServiceError | null, response?: unknown): void => {
    if (error === null) resolve(response);
    else reject(error);
  };
  const { request, namespace, signal } = call;
  const metadata = new Metadata();
  if (namespace !== undefined) metadata.set(NAMESPACE_HEADER, namespace);
  const { path, requestSerialize: to, responseDeserialize: from } = methodOf(call);
  const asked = client.makeUnaryRequest(path, to, from, request, metadata, options, answer);
  signal?.addEventListener("abort", () => {
    asked.cancel();
  });
  if (signal?.aborted === true) asked.cancel();
  return promise;
}
