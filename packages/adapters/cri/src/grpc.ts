// SPDX-License-Identifier: Apache-2.0
// gRPC clients over a unix socket, with deadlines and typed errors.
import { AppError, messageOf, type Clock } from "@patchbay/base";
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

/** Source: gRPC core, "Status codes and their use in gRPC". */
const STATUSES: readonly string[] = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
];

interface FailedCall {
  readonly method: string;
  readonly timeoutMs: number;
  readonly endpoint: string;
  readonly isConnected: boolean;
}

function describeReason(error: unknown): string {
  const details = error instanceof Error && "details" in error ? error.details : undefined;
  return typeof details === "string" && details !== "" ? details : messageOf(error);
}

function findStatus(error: unknown): string {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return (typeof code === "number" ? STATUSES[code] : undefined) ?? "UNKNOWN";
}

/** Converts a gRPC error. UNAVAILABLE from PullImage over an open connection means that the registry is unreachable. */
export function toCriError(error: unknown, call: FailedCall): AppError {
  const status = findStatus(error);
  const reason = describeReason(error);
  const { method, timeoutMs, endpoint } = call;
  if (status === "DEADLINE_EXCEEDED") {
    return new AppError("CRI_TIMED_OUT", { call: method, timeoutMs }, { cause: error });
  }
  const isRegistryError = method === "PullImage" && call.isConnected;
  const isDisconnected = status === "CANCELLED" || (status === "UNAVAILABLE" && !isRegistryError);
  return isDisconnected
    ? new AppError("CRI_UNAVAILABLE", { endpoint, reason }, { cause: error })
    : new AppError("CRI_FAILED", { call: method, status, reason }, { cause: error });
}

/** Decodes 64-bit numbers as strings and enumerations as names. Missing messages become null; other missing fields get defaults. */
const MESSAGE_FORMAT = { longs: String, enums: String, defaults: true } as const;

/** Source: kubelet remote runtime, maxMsgSize. */
const MESSAGE_BYTES_MAX = 16 * 1024 * 1024;

/** Maximum size of a message with a program's output, in bytes. The kubelet retains only 10 KiB of the output. */
const TENANT_OUTPUT_BYTES_MAX = 64 * 1024;

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

const SERVICES = {
  "runtime.v1.RuntimeService": "cri.proto",
  "runtime.v1.ImageService": "cri.proto",
  "containerd.services.events.v1.Events": "containerd-events.proto",
  "containerd.services.tasks.v1.Tasks": "containerd-tasks.proto",
} as const;

type ServiceName = keyof typeof SERVICES;

export interface Call {
  readonly service: ServiceName;
  readonly method: string;
  readonly request: object;
  /** containerd namespace. Set only for calls to containerd's own services, because CRI has no namespaces. */
  readonly namespace?: string;
  readonly signal?: AbortSignal;
  /** Whether the response contains output of a tenant's program. The call fails with RESOURCE_EXHAUSTED if such output exceeds 64 KiB. */
  readonly hasTenantOutput?: boolean;
}

interface StreamHandlers<Message> {
  onMessage(message: Message): void;
  /** Called once at the end of the stream. `error` is undefined if the server closed the stream. */
  onEnd(error: unknown): void;
}

/** Connection to one address. Connects on the first call, and again when necessary. */
export interface Endpoint {
  readonly address: string;
  /** @throws AppError with CRI_UNAVAILABLE, CRI_FAILED or CRI_TIMED_OUT */
  call<Response>(call: Call, timeoutMs: number): Promise<Response>;
  /** Opens a stream. The returned function cancels the stream. */
  stream<Message>(call: Call, handlers: StreamHandlers<Message>): () => void;
  close(): void;
}

type Method = MethodDefinition<object, unknown>;

const definitionsByFile = new Map<string, PackageDefinition>();

function loadProto(file: string): PackageDefinition {
  const cachedDefinition = definitionsByFile.get(file);
  if (cachedDefinition !== undefined) return cachedDefinition;
  const path = fileURLToPath(new URL(`../proto/${file}`, import.meta.url));
  const definition = loadSync(path, MESSAGE_FORMAT);
  definitionsByFile.set(file, definition);
  return definition;
}

function findMethod({ service, method }: Call): Method {
  const definition = loadProto(SERVICES[service])[service] as ServiceDefinition | undefined;
  const methodDefinition = definition?.[method];
  if (methodDefinition === undefined) throw new Error(`${service} has no method ${method}`);
  return methodDefinition as Method;
}

function openChannel(address: string, bytesMax: number) {
  const options = { ...CHANNEL_OPTIONS, "grpc.max_receive_message_length": bytesMax };
  const channel = new Channel(address, credentials.createInsecure(), options);
  const client = new Client(address, credentials.createInsecure(), { channelOverride: channel });
  return { channel, client };
}

export function openEndpoint(address: string, clock: Pick<Clock, "now">): Endpoint {
  const { channel, client } = openChannel(address, MESSAGE_BYTES_MAX);
  const tenantOutput = openChannel(address, TENANT_OUTPUT_BYTES_MAX);
  const translateError = (error: unknown, method: string, timeoutMs: number): Error => {
    const isConnected = channel.getConnectivityState(false) === connectivityState.READY;
    return toCriError(error, { method, timeoutMs, endpoint: address, isConnected });
  };
  return {
    address,
    call: async <Response>(call: Call, timeoutMs: number) => {
      try {
        const options = { deadline: clock.now() + timeoutMs };
        const selectedClient = call.hasTenantOutput === true ? tenantOutput.client : client;
        return (await callUnary(selectedClient, call, options)) as Response;
      } catch (error) {
        throw translateError(error, call.method, timeoutMs);
      }
    },
    stream: <Message>(call: Call, handlers: StreamHandlers<Message>) => {
      const messages = openStream(client, call);
      messages.on("data", (message: Message) => {
        handlers.onMessage(message);
      });
      messages.once("error", (error) => {
        handlers.onEnd(translateError(error, call.method, 0));
      });
      messages.once("end", () => {
        handlers.onEnd(undefined);
      });
      return () => {
        messages.cancel();
      };
    },
    close: () => {
      client.close();
      channel.close();
      tenantOutput.client.close();
      tenantOutput.channel.close();
    },
  };
}

function openStream(client: Client, call: Call): ClientReadableStream<unknown> {
  const { path, requestSerialize, responseDeserialize } = findMethod(call);
  return client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, call.request);
}

function callUnary(client: Client, call: Call, options: CallOptions): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers();
  const answer = (error: ServiceError | null, response?: unknown): void => {
    if (error === null) resolve(response);
    else reject(error);
  };
  const { request, namespace, signal } = call;
  const metadata = new Metadata();
  if (namespace !== undefined) metadata.set(NAMESPACE_HEADER, namespace);
  const { path, requestSerialize, responseDeserialize } = findMethod(call);
  const unaryCall = client.makeUnaryRequest(
    path,
    requestSerialize,
    responseDeserialize,
    request,
    metadata,
    options,
    answer,
  );
  signal?.addEventListener("abort", () => {
    unaryCall.cancel();
  });
  if (signal?.aborted === true) unaryCall.cancel();
  return promise;
}
