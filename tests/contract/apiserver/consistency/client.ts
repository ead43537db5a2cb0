// SPDX-License-Identifier: Apache-2.0
// A client that performs random operations and records the responses.
import fc from "fast-check";
import type { Answer, Ask, Body, Harness, Watch } from "../harness.ts";
import { type View, queryOf, revisionOf } from "./history.ts";

const NAMES = ["a", "b", "c", "d"];
export const GROUP = "consistency.example.com";
export const WIDGET = { apiVersion: `${GROUP}/v1`, kind: "Widget" };
const MERGE = "application/merge-patch+json";
const APPS = ["red", "green"];

export type Step =
  | { readonly do: "create"; readonly name: string; readonly app: string; readonly held: boolean }
  | {
      readonly do: "put";
      readonly name: string;
      readonly app: string;
      readonly size: string;
      readonly rv: string;
    }
  | { readonly do: "merge"; readonly name: string; readonly patch: unknown }
  | { readonly do: "json"; readonly name: string; readonly app: string }
  | { readonly do: "status"; readonly name: string; readonly phase: string }
  | { readonly do: "delete"; readonly name: string; readonly precondition: string }
  | { readonly do: "get"; readonly name: string }
  | { readonly do: "list"; readonly view: View; readonly limit: number }
  | { readonly do: "watch"; readonly view: View; readonly resume: boolean };

const name = fc.constantFrom(...NAMES);
const app = fc.constantFrom(...APPS);
const size = fc.constantFrom("S", "M", "L");
const view: fc.Arbitrary<View> = fc.record({ name, app }, { requiredKeys: [] });

export const STEP: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("create"), name, app, held: fc.boolean() }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("put"),
      name,
      app,
      size,
      rv: fc.constantFrom("current", "stale", "none"),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("merge"),
      name,
      patch: fc.oneof(
        size.map((value) => ({ spec: { size: value } })),
        app.map((value) => ({ metadata: { labels: { app: value } } })),
        fc.constant({ metadata: { finalizers: null } }),
      ),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("json"), name, app }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("status"), name, phase: size }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("delete"),
      name,
      precondition: fc.constantFrom("none", "uid", "stale"),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("get"), name }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("list"), view, limit: fc.constantFrom(0, 1, 2) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("watch"), view, resume: fc.boolean() }) },
);

/** The responses to all clients. */
export class Told {
  /** Objects returned by writes. */
  readonly written: Body[] = [];
  /** Uids of objects whose deletion succeeded. */
  readonly deletedUids: string[] = [];
  readonly lists: {
    readonly view: View;
    readonly revision: number;
    readonly items: Body[];
    readonly floor: number;
  }[] = [];
  readonly gets: { readonly object: Body; readonly floor: number }[] = [];
  readonly watches: { readonly view: View; readonly from: number; readonly parts: Watch[] }[] = [];
  readonly failures: string[] = [];
  /** The highest revision that any client has seen: later reads must not be older. */
  highest = 0;

  see(object: Body): void {
    this.highest = Math.max(this.highest, revisionOf(object));
  }

  /** Records a write's returned object. A write that removed the last finalizer of a deleted object has deleted it. */
  write(object: Body): void {
    const { deletionTimestamp, finalizers = [], uid } = object.metadata;
    this.see(object);
    if (deletionTimestamp !== undefined && finalizers.length === 0) {
      this.deletedUids.push(uid);
    } else {
      this.written.push(object);
    }
  }
}

export class RandomClient {
  readonly #api: Harness;
  readonly #told: Told;
  readonly #path: string;
  readonly #namespace: string;

  constructor(api: Harness, told: Told, at: { readonly path: string; readonly namespace: string }) {
    this.#api = api;
    this.#told = told;
    this.#path = at.path;
    this.#namespace = at.namespace;
  }

  async run(step: Step): Promise<void> {
    switch (step.do) {
      case "create":
        return this.#create(step);
      case "put":
        return this.#put(step);
      case "merge":
        return this.#write("PATCH", `/${step.name}`, { body: step.patch, type: MERGE });
      case "json":
        return this.#write("PATCH", `/${step.name}`, {
          body: [{ op: "add", path: "/metadata/labels", value: { app: step.app } }],
          type: "application/json-patch+json",
        });
      case "status":
        return this.#write("PATCH", `/${step.name}/status`, {
          body: { status: { phase: step.phase } },
          type: MERGE,
        });
      case "delete":
        return this.#delete(step);
      case "get":
        return this.#get(step.name);
      case "list":
        return this.#list(step);
      case "watch":
        return this.#watch(step);
    }
  }

  /** A rejection is a valid response, a server failure is not. */
  #succeeded({ code, text }: Answer): boolean {
    if (code >= 500) {
      this.#told.failures.push(text);
    }
    return code < 300;
  }

  async #write(method: string, path: string, sent: Ask): Promise<void> {
    const answer = await this.#api.ask(method, `${this.#path}${path}`, sent);
    if (this.#succeeded(answer)) {
      this.#told.write(answer.body);
    }
  }

  async #create({
    name: target,
    app: label,
    held,
  }: Extract<Step, { do: "create" }>): Promise<void> {
    const finalizers = held ? { finalizers: ["example.com/held"] } : {};
    const metadata = { name: target, labels: { app: label }, ...finalizers };
    await this.#write("POST", "", { body: { ...WIDGET, metadata, spec: { size: "S" } } });
  }

  async #put(step: Extract<Step, { do: "put" }>): Promise<void> {
    const { body: found, code } = await this.#api.ask("GET", `${this.#path}/${step.name}`);
    if (code !== 200) {
      return;
    }
    const { resourceVersion, ...metadata } = found.metadata;
    const versions: Readonly<Record<string, object>> = {
      current: { resourceVersion },
      stale: { resourceVersion: "2" },
      none: {},
    };
    const body = {
      ...found,
      metadata: { ...metadata, labels: { app: step.app }, ...versions[step.rv] },
      spec: { size: step.size },
    };
    await this.#write("PUT", `/${step.name}`, { body });
  }

  async #delete({ name: target, precondition }: Extract<Step, { do: "delete" }>): Promise<void> {
    const path = `${this.#path}/${target}`;
    const { body: found, code } = await this.#api.ask("GET", path);
    if (code !== 200) {
      return;
    }
    // Always by uid, because a deletion's response does not name which of several objects of a name it deleted.
    const { uid } = found.metadata;
    const stale = precondition === "stale" ? { resourceVersion: "2" } : {};
    const answer = await this.#api.ask("DELETE", path, {
      body: { preconditions: { uid, ...stale } },
    });
    if (!this.#succeeded(answer)) {
      return;
    }
    if (answer.body.kind === "Status") {
      this.#told.deletedUids.push(uid);
    } else {
      this.#told.write(answer.body);
    }
  }

  async #get(target: string): Promise<void> {
    const floor = this.#told.highest;
    const answer = await this.#api.ask("GET", `${this.#path}/${target}`);
    if (this.#succeeded(answer)) {
      this.#told.see(answer.body);
      this.#told.gets.push({ object: answer.body, floor });
    }
  }

  async #list({ view: asked, limit }: Extract<Step, { do: "list" }>): Promise<void> {
    const items: Body[] = [];
    const floor = this.#told.highest;
    const query = `?${queryOf(asked)}${limit === 0 ? "" : `&limit=${String(limit)}`}`;
    let next = "";
    let revision = 0;
    do {
      const path = `${this.#path}${query}&continue=${encodeURIComponent(next)}`;
      const answer = await this.#api.ask("GET", path);
      if (!this.#succeeded(answer)) {
        this.#told.failures.push(answer.text);
        return;
      }
      if (revision !== 0 && revisionOf(answer.body) !== revision) {
        this.#told.failures.push(
          `pages of ${String(revision)} and ${answer.body.metadata.resourceVersion}`,
        );
      }
      revision = revisionOf(answer.body);
      items.push(...answer.body.items);
      // Missing on the last page, despite the type.
      next = answer.body.metadata.continue;
    } while (Boolean(next));
    this.#told.highest = Math.max(this.#told.highest, revision);
    this.#told.lists.push({
      view: { ...asked, namespace: this.#namespace },
      revision,
      items,
      floor,
    });
  }

  /** Watches from the current state; with `resume` in two parts, the second from the last event of the first. */
  async #watch({ view: asked, resume }: Extract<Step, { do: "watch" }>): Promise<void> {
    const from = this.#told.highest;
    const open = (revision: number) =>
      this.#api.watch(
        `${this.#path}?watch=1&resourceVersion=${String(revision)}&${queryOf(asked)}`,
      );
    const parts = [await open(from)];
    if (resume) {
      await parts[0]?.first(1, 50);
      await parts[0]?.[Symbol.asyncDispose]();
      const last = parts[0]?.events.at(-1)?.object;
      parts.push(await open(last === undefined ? from : revisionOf(last)));
    }
    this.#told.watches.push({ view: { ...asked, namespace: this.#namespace }, from, parts });
  }
}
