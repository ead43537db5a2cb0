// SPDX-License-Identifier: Apache-2.0
// An in-memory API server without a network: real store, kinds, access rights and verbs. The test moves its clock.
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { KeyedMutex, type Logger } from "@patchbay/base";

import { type FakeClock, createFakeClock } from "@patchbay/os/testing";
import { withBuiltInAdmission } from "../admission/built-in-admission.ts";
import { makeAccess } from "../auth/access.ts";
import type { User } from "../auth/user.ts";
import { Connections } from "../backend/connections.ts";
import { renderReply } from "../http/response/render.ts";
import { type DispatchDeps, type DispatchResult, dispatch } from "../http/dispatch.ts";
import { parseTarget } from "../http/target.ts";
import { Registry } from "../kinds/registry.ts";
import { LIMITS, type Limits, UserQuotas } from "../limits/limits.ts";
import { FairQueue } from "../limits/fair-queue.ts";
import { ResourceQuotas } from "../limits/resource-quotas.ts";
import { type StatusDetails, StatusError } from "../meta/status.ts";
import { copyJson } from "../objects/json.ts";
import type { Address, KubeObject, Meta } from "../objects/object.ts";
import { openStore } from "../storage/sqlite-store.ts";
import { DEFAULT_WATCH_BEHAVIOR } from "../verbs/watch/watch-behavior.ts";
import { FakeResponse } from "./fake-response.ts";
import { FakeWebhooks } from "./fake-webhooks.ts";

/** User who may do everything. */
export const ADMIN: User = { name: "admin", groups: ["system:masters", "system:authenticated"] };

/** Number of turns of the event loop after which a test gives up. */
const TURNS_MAX = 2000;

/** Content of a request. A text body is sent as it is, other bodies as JSON. */
export interface Sent {
  readonly body?: unknown;
  /** Media type of the body; by default a merge patch for PATCH, otherwise JSON. */
  readonly contentType?: string;
  readonly accept?: string;
  readonly user?: User;
}

/** Fields that tests read without checking that they exist. */
export interface AnswerBody extends Omit<KubeObject, "metadata"> {
  readonly metadata: Meta & { readonly continue?: string; readonly remainingItemCount?: number };
  readonly items: readonly KubeObject[];
  readonly message: string;
  readonly reason: string;
  readonly details: StatusDetails;
}

export interface Answer {
  readonly code: number;
  readonly body: AnswerBody;
  readonly warnings: readonly string[];
}

export interface OpenWatch {
  readonly response: FakeResponse;
  /** Resolves when the verb has returned. */
  readonly done: Promise<DispatchResult>;
}

/** Options of a test server. Unset members are as in production. */
export type TestServerOptions = Partial<
  Pick<DispatchDeps, "watchBehavior" | "random"> & { readonly limits: Partial<Limits> }
>;

/** Runs turns of the event loop, so that everything runs that does not wait for the clock. */
export async function runTurns(count = 5): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Resolves when `condition` holds. Throws with `what` after many turns of the event loop. */
export async function until(what: string, condition: () => boolean): Promise<void> {
  for (let turn = 0; turn < TURNS_MAX; turn += 1) {
    if (condition()) return;
    await runTurns(1);
  }
  throw new Error(`${what}: not within ${String(TURNS_MAX)} turns`);
}

function countingRandom(): DispatchDeps["random"] {
  let count = 0;
  const next = (): string => {
    count += 1;
    return String(count);
  };
  return { uid: () => `uid-${next()}`, suffix: () => next().padStart(5, "x"), fraction: () => 0 };
}

function bodyText(body: unknown): string {
  if (body === undefined) return "";
  return typeof body === "string" ? body : JSON.stringify(body);
}

function toRequest(method: string, sent: Sent): IncomingMessage {
  const text = bodyText(sent.body);
  const defaultType = method === "PATCH" ? "application/merge-patch+json" : "application/json";
  const request = Object.assign(Readable.from(text === "" ? [] : [Buffer.from(text)]), {
    method,
    headers: {
      ...(text === "" ? {} : { "content-type": sent.contentType ?? defaultType }),
      accept: sent.accept ?? "application/json",
    },
  });
  // verbs read only the method, the headers and the body
  return request as unknown as IncomingMessage;
}

export class TestServer {
  readonly deps: DispatchDeps;
  readonly clock: FakeClock;
  readonly webhooks = new FakeWebhooks();
  /** Logged errors. */
  readonly logged: string[] = [];
  readonly #stopping = new AbortController();

  constructor(options: TestServerOptions = {}) {
    const store = openStore(":memory:", (error) => {
      throw error;
    });
    const clock = createFakeClock();
    this.clock = clock;
    const logger = this.#makeLogger();
    const access = makeAccess({ tokens: [], clock, logger }, store);
    const random = options.random ?? countingRandom();
    const limits = { ...LIMITS, ...options.limits };
    this.deps = {
      ...access,
      store,
      registry: new Registry(store),
      admission: withBuiltInAdmission({ store, clock, random, ...access }, this.webhooks),
      watchBehavior: options.watchBehavior ?? DEFAULT_WATCH_BEHAVIOR,
      clock,
      logger,
      mutex: new KeyedMutex(),
      fairQueue: new FairQueue({ clock, stop: this.#stopping.signal }),
      quotas: new UserQuotas(limits, { clock, stop: this.#stopping.signal }),
      resourceQuotas: new ResourceQuotas(store),
      limits,
      serviceNetwork: "10.96.0.0/16",
      random,
      stop: this.#stopping.signal,
      kubelets: { connections: new Connections(undefined), caPem: "" },
    };
  }

  /** Writes objects directly into the store, each into the namespace in its metadata. */
  async put(resource: string, ...objects: readonly KubeObject[]): Promise<void> {
    await this.deps.store.write((transaction) => {
      for (const object of objects) {
        transaction.put(this.#addressOf(resource, object), copyJson(object));
      }
    });
  }

  stored(resource: string, name: string, namespace = "default"): KubeObject | undefined {
    const bucket = resource.includes("/") ? resource : `/${resource}`;
    return this.deps.store.find({ bucket, namespace, name })?.copy();
  }

  /** Sends a request. Errors are returned as answers. */
  async send(method: string, path: string, sent: Sent = {}): Promise<Answer> {
    const response = new FakeResponse();
    try {
      const { call, reply } = await this.#dispatch(method, path, { sent, response });
      if (reply === undefined) throw new Error(`${method} ${path} answered by itself`);
      const { code, text } = renderReply(call, reply, this.clock.now());
      return { code, body: JSON.parse(text) as AnswerBody, warnings: call.warnings };
    } catch (error) {
      if (!(error instanceof StatusError)) throw error;
      const body = JSON.parse(JSON.stringify(error.toBody())) as AnswerBody;
      return { code: error.code, body, warnings: [] };
    }
  }

  watch(path: string, sent: Sent = {}, response: FakeResponse = new FakeResponse()): OpenWatch {
    const done = this.#dispatch("GET", path, { sent, response });
    // a test that expects an error awaits `done`
    done.catch(() => undefined);
    return { response, done };
  }

  /** Ends watches like a server that stops. */
  stop(): void {
    this.#stopping.abort();
  }

  async close(): Promise<void> {
    this.stop();
    await runTurns();
    await this.deps.store.close();
  }

  #dispatch(
    method: string,
    path: string,
    exchange: { readonly sent: Sent; readonly response: FakeResponse },
  ): Promise<DispatchResult> {
    const url = new URL(path, "https://test");
    const target = parseTarget(url.pathname);
    if (target === undefined) throw new Error(`${path} is the path of no resource`);
    const request = {
      target,
      query: url.searchParams,
      user: exchange.sent.user ?? ADMIN,
      request: toRequest(method, exchange.sent),
      response: exchange.response.asServerResponse,
    };
    return dispatch(request, this.deps);
  }

  #addressOf(resource: string, { metadata }: KubeObject): Address {
    const bucket = resource.includes("/") ? resource : `/${resource}`;
    return { bucket, namespace: metadata.namespace ?? "", name: metadata.name };
  }

  #makeLogger(): Logger {
    const quiet = (): void => undefined;
    const error = (message: string, fields?: object): void => {
      this.logged.push(`${message} ${JSON.stringify(fields)}`);
    };
    const logger: Logger = { debug: quiet, info: quiet, warn: quiet, error, child: () => logger };
    return logger;
  }
}

/** Starts a server with the namespaces `default` and `other` and their default service accounts. */
export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  const server = new TestServer(options);
  for (const namespace of ["default", "other"]) {
    await server.put("namespaces", {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name: namespace, uid: `uid-${namespace}` },
      spec: { finalizers: ["kubernetes"] },
      status: { phase: "Active" },
    });
    await server.put("serviceaccounts", {
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: { name: "default", namespace, uid: `uid-account-${namespace}` },
    });
  }
  return server;
}
