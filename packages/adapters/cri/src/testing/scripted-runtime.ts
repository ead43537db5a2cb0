// SPDX-License-Identifier: Apache-2.0
// A gRPC server on a unix socket with scripted answers, for behavior that no available runtime has, such as CRI-O's
// streams.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import {
  Server,
  ServerCredentials,
  status,
  type sendUnaryData,
  type ServerUnaryCall,
  type ServerWritableStream,
  type ServiceDefinition,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import type { Clock } from "@patchbay/base";

/** Clock for gRPC deadlines, which cannot sleep. */
export const wallClock: Clock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep: () => Promise.reject(new Error("take a fake clock")),
};

/** Returns the answer; a thrown error is sent with its `code` and `details`. */
export type Answer = (request: Record<string, unknown>) => object | Promise<object>;

export type Stream = (stream: ServerWritableStream<object, object>) => void;

const PROTOS = ["cri.proto", "containerd-events.proto", "containerd-tasks.proto"];

function buildDefinitions(): Readonly<Record<string, ServiceDefinition>> {
  const loaded = PROTOS.map((file) =>
    loadSync(fileURLToPath(new URL(`../../proto/${file}`, import.meta.url)), {
      longs: String,
      enums: String,
      defaults: true,
    }),
  );
  return Object.assign({}, ...loaded) as Readonly<Record<string, ServiceDefinition>>; // the .proto files contain services and types
}

export function grpcError(code: keyof typeof status, details = ""): Error {
  return Object.assign(new Error(details), { code: status[code], details });
}

/** A server whose methods are scripted by name, for example `Version`. Other methods are unimplemented. */
export class ScriptedRuntime {
  readonly calls: {
    readonly method: string;
    readonly request: Record<string, unknown>;
    /** Metadata of unary calls, by name. */
    readonly metadata?: Readonly<Record<string, unknown>>;
  }[] = [];
  readonly address: string;
  readonly #directory = mkdtempSync(join(tmpdir(), "cri-"));
  readonly #services: readonly string[];
  readonly answers: Record<string, Answer> = {};
  readonly streams: Record<string, Stream> = {};
  #server: Server | undefined;

  /** `services` are the names of the offered services. */
  constructor(services: readonly string[]) {
    this.#services = services;
    this.address = `unix://${this.#directory}/cri.sock`;
  }

  async start(): Promise<void> {
    const server = new Server();
    const definitions = buildDefinitions();
    for (const name of this.#services) {
      const service = definitions[name];
      if (service === undefined) throw new Error(`no service ${name}`);
      server.addService(service, this.#handlersOf(service));
    }
    const { promise, resolve, reject } = Promise.withResolvers<undefined>();
    server.bindAsync(this.address, ServerCredentials.createInsecure(), (error) => {
      if (error === null) resolve(undefined);
      else reject(error);
    });
    this.#server = server;
    await promise;
  }

  stop(): void {
    this.#server?.forceShutdown();
    this.#server = undefined;
  }

  close(): void {
    this.stop();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #handlersOf(service: ServiceDefinition): UntypedServiceImplementation {
    return Object.fromEntries(
      Object.entries(service).map(([method, { responseStream }]) => [
        method,
        responseStream ? this.#streamOf(method) : this.#answerOf(method),
      ]),
    );
  }

  #streamOf(method: string) {
    return (stream: ServerWritableStream<object, object>): void => {
      this.calls.push({ method, request: stream.request as Record<string, unknown> });
      const script = this.streams[method];
      if (script === undefined) stream.emit("error", grpcError("UNIMPLEMENTED"));
      else script(stream);
    };
  }

  #answerOf(method: string) {
    return (
      { request, metadata }: ServerUnaryCall<Record<string, unknown>, object>,
      answer: sendUnaryData<object>,
    ): void => {
      this.calls.push({ method, request, metadata: metadata.getMap() });
      const script = this.answers[method];
      if (script === undefined) {
        answer({ code: status.UNIMPLEMENTED, details: `no ${method}` });
        return;
      }
      Promise.resolve()
        .then(() => script(request))
        .then(
          (response) => {
            answer(null, response);
          },
          (error: unknown) => {
            answer(error as Error); // thrown by the script
          },
        );
    };
  }
}
