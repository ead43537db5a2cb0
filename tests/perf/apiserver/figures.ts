// SPDX-License-Identifier: Apache-2.0
// Benchmarks of the embedded API server with known figures of kube-apiserver.
import { describeLoad, load, timed } from "./load.ts";
import type { ServerProcess } from "./process.ts";
import { measureFanOut, measureReplay } from "./watchers.ts";

const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const LOADS = "/apis/perf.example.com/v1/namespaces/default/loads";
const OTHERS = "/apis/perf.example.com/v1/namespaces/kube-public/loads";
const OBJECTS = 5000;
const PAGE = 500;
const REQUESTS = 3000;

/** One line of the table. `real`: of kube-apiserver 1.26 with etcd on two cores, load average about 2. */
export interface Figure {
  readonly name: string;
  readonly ours: string;
  readonly real: string;
}

function definition(): unknown {
  const preserved = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "loads.perf.example.com" },
    spec: {
      group: "perf.example.com",
      scope: "Namespaced",
      names: { plural: "loads", kind: "Load" },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          subresources: { status: {} },
          schema: {
            openAPIV3Schema: {
              type: "object",
              properties: {
                spec: {
                  type: "object",
                  properties: { size: { type: "string" }, count: { type: "integer" } },
                },
                status: preserved,
              },
            },
          },
        },
      ],
    },
  };
}

/** An object of about 600 bytes as stored, one in ten with the selected label. */
function object(name: string, tenth = false): unknown {
  return {
    apiVersion: "perf.example.com/v1",
    kind: "Load",
    metadata: {
      name,
      labels: { app: "load", part: tenth ? "tenth" : "rest" },
      annotations: { note: "n".repeat(220) },
    },
    spec: { size: "XL", count: 3 },
  };
}

function nameOf(index: number): string {
  return `load-${String(index)}`;
}

function milliseconds(ms: number, text = ""): string {
  return `${ms.toFixed(0)} ms${text === "" ? "" : `, ${(Buffer.byteLength(text) / 1e6).toFixed(1)} MB`}`;
}

async function pages(server: ServerProcess): Promise<void> {
  let token = "";
  do {
    const text = await server.ask("GET", `${LOADS}?limit=${String(PAGE)}&continue=${token}`);
    // A list, of which only the token is read.
    const list = JSON.parse(text) as { readonly metadata: { readonly continue?: string } };
    token = list.metadata.continue ?? "";
  } while (token !== "");
}

async function measureReads(server: ServerProcess): Promise<Figure[]> {
  const all = await timed(() => server.ask("GET", LOADS));
  const some = await timed(() => server.ask("GET", `${LOADS}?labelSelector=part%3Dtenth`));
  const paged = await timed(() => pages(server));
  const get = (index: number) => server.ask("GET", `${LOADS}/${nameOf(index % OBJECTS)}`);
  return [
    { name: "list 5,000", ours: milliseconds(all.ms, all.answer), real: "531 ms, 3.1 MB" },
    { name: "list by label, 500 of 5,000", ours: milliseconds(some.ms), real: "364 ms" },
    { name: "10 pages of 500", ours: milliseconds(paged.ms), real: "621 ms" },
    {
      name: "get, 32 at a time",
      ours: describeLoad(await load(REQUESTS, 32, get)),
      real: "2331/s, p99 45.7 ms",
    },
    { name: "get, 1 at a time", ours: describeLoad(await load(REQUESTS, 1, get)), real: "" },
  ];
}

async function measureWrites(server: ServerProcess): Promise<Figure[]> {
  const status = (index: number) =>
    server.ask("PATCH", `${LOADS}/${nameOf(index % OBJECTS)}/status`, { status: { at: index } });
  const one = (index: number) =>
    server.ask("PATCH", `${LOADS}/${nameOf(0)}`, { spec: { count: index } });
  const alone = (index: number) => server.ask("POST", LOADS, object(`alone-${String(index)}`));
  return [
    {
      name: "status merge patch, 32 at a time",
      ours: describeLoad(await load(REQUESTS, 32, status)),
      real: "835/s, p99 131.2 ms",
    },
    {
      name: "status merge patch, 1 at a time",
      ours: describeLoad(await load(1000, 1, status)),
      real: "",
    },
    {
      name: "patch of one object, 4 at a time",
      ours: `${describeLoad(await load(1000, 4, one))}, 0 conflicts`,
      real: "116/s, 0 conflicts",
    },
    { name: "create, 1 at a time", ours: describeLoad(await load(1000, 1, alone)), real: "" },
  ];
}

async function measureDeletions(server: ServerProcess): Promise<Figure[]> {
  await load(1000, 32, (index) => server.ask("POST", OTHERS, object(nameOf(index))));
  const collection = await timed(() => server.ask("DELETE", OTHERS));
  const remove = (index: number) => server.ask("DELETE", `${LOADS}/${nameOf(index)}`);
  return [
    {
      name: "deletecollection of 1,000",
      ours: milliseconds(collection.ms),
      real: "2192 ms",
    },
    {
      name: "delete 4,000, 32 at a time",
      ours: describeLoad(await load(4000, 32, remove)),
      real: "744/s, p99 140.8 ms",
    },
  ];
}

/** Measures one empty server. */
export async function measureFigures(server: ServerProcess): Promise<readonly Figure[]> {
  await server.ask("POST", DEFINITIONS, definition());
  await server
    .ask("POST", "/api/v1/namespaces", { metadata: { name: "kube-public" } })
    .catch(() => undefined);
  const create = (index: number) =>
    server.ask("POST", LOADS, object(nameOf(index), index % 10 === 0));
  const created = {
    name: "create 5,000 custom resources, 32 at a time",
    ours: describeLoad(await load(OBJECTS, 32, create)),
    real: "1096/s, p50 24.9 ms, p99 84.2 ms",
  };
  const reads = await measureReads(server);
  const replay = {
    name: "watch from 0: 5,000 ADDED",
    ours: milliseconds(await measureReplay(server, LOADS, OBJECTS)),
    real: "222 ms",
  };
  const writes = await measureWrites(server);
  const fanOut = {
    name: "50 watches x 500 events",
    ours: await measureFanOut(server, LOADS, object),
    real: "20458 deliveries/s in 1.22 s; request to event p50 29 ms, p99 147.2 ms",
  };
  return [created, ...reads, replay, ...writes, fanOut, ...(await measureDeletions(server))];
}
