// SPDX-License-Identifier: Apache-2.0
// kubectl's read commands in all output formats.
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, test } from "vitest";
import { widgetDefinition } from "../harness.ts";
import { type KubectlSession, startKubectlSession } from "./session.ts";

let session: KubectlSession;

const LABELS = { app: "web" };

function deployment() {
  const spec = { containers: [{ name: "c", image: "i:1" }] };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web", labels: LABELS },
    spec: { selector: { matchLabels: LABELS }, template: { metadata: { labels: LABELS }, spec } },
  };
}

beforeAll(async () => {
  session = await startKubectlSession();
  const { api } = session;
  await api.post(
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    widgetDefinition("read.test"),
  );
  await api.post("/apis/apps/v1/namespaces/default/deployments", deployment());
  await api.post("/apis/read.test/v1/namespaces/default/widgets", {
    apiVersion: "read.test/v1",
    kind: "Widget",
    metadata: { name: "w" },
    spec: { size: "xl" },
  });
  await api.post("/api/v1/nodes", { metadata: { name: "n1" }, spec: { podCIDR: "10.1.0.0/24" } });
  await api.post("/api/v1/namespaces/default/services", {
    metadata: { name: "svc" },
    spec: { selector: LABELS, ports: [{ port: 80 }] },
  });
  for (const name of ["b", "a", "c"]) {
    await api.post("/api/v1/namespaces/default/secrets", {
      metadata: { name, labels: { set: "s" } },
      stringData: { k: name },
    });
  }
});

afterAll(async () => {
  await session.close();
});

test.concurrent.each([
  ["get deploy web", /^NAME +READY +UP-TO-DATE +AVAILABLE +AGE\nweb +0\/1 +0 +0 +\d+s\n$/],
  [
    "get deploy web -o wide --show-labels",
    /CONTAINERS +IMAGES +SELECTOR +LABELS\n.* c +i:1 +app=web +app=web\n/,
  ],
  [
    "get svc svc -o wide",
    /CLUSTER-IP +EXTERNAL-IP +PORT\(S\) +AGE +SELECTOR\n.*80\/TCP.*app=web\n/,
  ],
  ["get secrets -l set=s --sort-by=.metadata.name -o name", /^secret\/a\nsecret\/b\nsecret\/c\n$/],
  ["get secrets -l set=s --chunk-size=1 --no-headers", /^a .*\nb .*\nc .*\n$/],
  ["get secrets --field-selector metadata.name=b -o jsonpath={.items[*].metadata.name}", /^b$/],
  ["get widgets w -o custom-columns=N:.metadata.name,S:.spec.size", /^N +S\nw +xl\n$/],
  ["get widgets w -o go-template={{.spec.size}}", /^xl$/],
  ["get widgets,deploy -A -o name", /widget\.read\.test\/w\ndeployment\.apps\/web\n/],
  ["get all", /service\/svc[^]*deployment\.apps\/web/],
  ["get --raw /version", /"gitVersion"/],
  [
    "api-resources --namespaced=false -o name",
    /^[^]*namespaces\n[^]*priorityclasses\.scheduling\.k8s\.io\n/,
  ],
  ["cluster-info", /is running at/],
])("%s", async (line, want) => {
  const { code, out, err } = await session.kubectl(line);
  expect([code, out]).toEqual([0, expect.stringMatching(want)]);
  expect(err).not.toMatch(/error/i);
});

test.concurrent.each([
  ["deploy web", /Selector: +app=web[^]*StrategyType: +RollingUpdate[^]*Image: +i:1/],
  ["node n1", /Name: +n1[^]*PodCIDR: +10\.1\.0\.0\/24/],
  ["ns default", /Status: +Active[^]*No resource quota[^]*No LimitRange resource/],
  ["secret a", /Type: +Opaque[^]*k: +1 bytes/],
  ["widget w", /Size: +xl/],
  ["crd widgets.read.test", /Kind: +CustomResourceDefinition[^]*Established/],
])("describe %s", async (what, want) => {
  const { code, out } = await session.kubectl(`describe ${what}`);
  expect([code, out]).toEqual([0, expect.stringMatching(want)]);
});

test.concurrent.each([
  ["pod.spec.containers.livenessProbe", /httpGet\s+<[^]*periodSeconds\s+<integer>/],
  ["deployment.spec.strategy", /rollingUpdate\s+</],
  ["pod --recursive", /containers\s+<\[\][^]*livenessProbe\s+<[^]*httpGet\s+</],
  ["widget.spec", /size\s+<string>/],
])("explain %s", async (what, want) => {
  const { code, out } = await session.kubectl(`explain ${what}`);
  expect([code, out]).toEqual([0, expect.stringMatching(want)]);
});

test("a watch prints events with columns", async () => {
  const watch = session.follow("get secrets -l watched=yes --watch --output-watch-events");
  const exited = once(watch, "exit");
  const observed: string[] = [];
  const path = "/api/v1/namespaces/default/secrets";
  await session.api.post(path, { metadata: { name: "seen", labels: { watched: "yes" } } });
  for await (const line of createInterface(watch.stdout)) {
    observed.push(line.replaceAll(/ +/g, " ").replace(/ \d+s$/, ""));
    if (line.startsWith("ADDED")) {
      await session.api.delete(`${path}/seen`);
    }
    if (line.startsWith("DELETED")) {
      watch.kill();
    }
  }
  await exited;
  expect(observed).toEqual([
    "EVENT NAME TYPE DATA AGE",
    "ADDED seen Opaque 0",
    "DELETED seen Opaque 0",
  ]);
});

test("reports missing features plainly", async () => {
  expect((await session.kubectl("logs none")).err).toContain('pods "none" not found');
  expect((await session.kubectl("get gadgets")).err).toContain("doesn't have a resource type");
  expect((await session.kubectl("get secret none")).err).toContain('secrets "none" not found');
});
