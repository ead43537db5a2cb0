// SPDX-License-Identifier: Apache-2.0
// Creation, distribution and renewal of certificates, by one or two processes.
import { X509Certificate } from "node:crypto";
import {
  API_SERVICES,
  CONFIG_MAPS,
  MUTATING_WEBHOOKS,
  SECRETS,
  VALIDATING_WEBHOOKS,
  type ResourceType,
} from "@patchbay/api";
import type { ApiService, ConfigMap, KubeObject } from "@patchbay/api/kubernetes";
import { splitBundle } from "@patchbay/pki";
import { createFakeCache, createFakeStore, type FakeCache } from "@patchbay/kube/testing";
import { createFakeClock } from "@patchbay/os/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { beforeEach, describe, expect, test } from "vitest";
import { VERSIONS } from "../routes/table.ts";
import { AUTHENTICATION_KEY, createCertificateSource, createTrustSource } from "./cluster.ts";
import { reconcileCertificates } from "./reconcile.ts";
import { readContents, HANDLERS_KEY, readCertificates, SECRET_KEY, SERVER_NAME } from "./secret.ts";

const DAY = 24 * 3_600_000;
const WEBHOOKS = {
  metadata: { name: "patchbay" },
  apiVersion: "admissionregistration.k8s.io/v1",
} as const;

let store: ReturnType<typeof createFakeStore>;
let clock: ReturnType<typeof createFakeClock>;

beforeEach(() => {
  store = createFakeStore();
  clock = createFakeClock();
  store.put(SECRETS, { apiVersion: "v1", kind: "Secret", metadata: { ...SECRET_KEY } });
  store.put(SECRETS, { apiVersion: "v1", kind: "Secret", metadata: { ...HANDLERS_KEY } });
  for (const version of VERSIONS) {
    store.put(API_SERVICES, {
      apiVersion: "apiregistration.k8s.io/v1",
      kind: "APIService",
      metadata: { name: `${version}.subresources.kubevirt.io` },
      spec: { group: "subresources.kubevirt.io", version },
    });
  }
  const webhooks = ["a.patchbay.io", "b.patchbay.io"].map((name) => ({ name, clientConfig: {} }));
  store.put(MUTATING_WEBHOOKS, {
    ...WEBHOOKS,
    kind: "MutatingWebhookConfiguration",
    webhooks: webhooks.slice(1),
  });
  store.put(VALIDATING_WEBHOOKS, {
    ...WEBHOOKS,
    kind: "ValidatingWebhookConfiguration",
    webhooks,
  });
});

/** A virt-api whose caches change only when `look` is called. */
function starter() {
  // Both share a cache and look up their object by name.
  const apiServices = createFakeCache<ApiService>();
  const caches = {
    secrets: createFakeCache(),
    handlers: createFakeCache(),
    mutating: createFakeCache(),
    validating: createFakeCache(),
  }; // one method for all kinds
  const fill = async <T extends KubeObject>(
    cache: FakeCache<T> | FakeCache<never>,
    type: ResourceType<T>,
  ) => {
    for (const object of (await store.list(type)).items) cache.put(object as never);
  };
  const deps = {
    ...caches,
    apiServices: { v1: apiServices, v1alpha3: apiServices },
    store,
    clock,
    log: createSilentLogger(),
  } as const;
  const look = async (): Promise<void> => {
    await fill(caches.secrets, SECRETS);
    await fill(caches.handlers, SECRETS);
    await fill(apiServices, API_SERVICES);
    await fill(caches.mutating, MUTATING_WEBHOOKS);
    await fill(caches.validating, VALIDATING_WEBHOOKS);
  };
  const pass = () => reconcileCertificates(deps); // the caches are those of their kinds
  const settle = async () => {
    let before = -1;
    while (before !== store.calls.length) {
      await look();
      before = store.calls.filter((call) => call.startsWith("patch")).length;
      await pass();
      if (before === store.calls.filter((call) => call.startsWith("patch")).length) return;
    }
  };
  return { look, pass, settle, secrets: caches.secrets };
}

async function kept() {
  return readCertificates((await store.find(SECRETS, SECRET_KEY)) ?? {});
}

async function bundles(): Promise<readonly unknown[]> {
  const services = (await store.list(API_SERVICES)).items;
  const mutating = await store.find(MUTATING_WEBHOOKS, { name: "patchbay" });
  const validating = await store.find(VALIDATING_WEBHOOKS, { name: "patchbay" });
  const webhooks = [...(mutating?.webhooks ?? []), ...(validating?.webhooks ?? [])];
  return [
    ...services.map(({ spec }) => spec.caBundle),
    ...webhooks.map(({ clientConfig }) => clientConfig.caBundle),
  ];
}

describe("an empty Secret", () => {
  test("gets a CA, which is distributed before the Service's certificate is issued", async () => {
    await starter().settle();
    const { contents, serving } = await kept();
    const encoded = Buffer.from(contents.bundlePem).toString("base64");
    expect(await bundles()).toEqual([encoded, encoded, encoded, encoded, encoded]);
    const certificate = new X509Certificate(serving?.certPem ?? "");
    expect(certificate.checkHost(SERVER_NAME)).toBe(SERVER_NAME);
    expect(certificate.verify(new X509Certificate(contents.bundlePem).publicKey)).toBe(true);
    expect(certificate.checkHost("kubernetes.default.svc")).toBeUndefined();
  });

  test("leads to a certificate for virt-handlers, without the CA's key", async () => {
    await starter().settle();
    const { contents } = await kept();
    const secret = await store.find(SECRETS, HANDLERS_KEY);
    const given = readContents(secret ?? {});
    expect(Object.keys(secret?.data ?? {})).toEqual(["ca.crt", "tls.crt", "tls.key"]);
    expect(given.bundlePem).toBe(contents.bundlePem);
    const certificate = new X509Certificate(given.certPem);
    expect(certificate.checkHost("virt-handler")).toBe("virt-handler");
    expect(certificate.verify(new X509Certificate(contents.bundlePem).publicKey)).toBe(true);
    expect(given.keyPem).not.toBe(contents.keyPem);
  });

  test("is filled once by two concurrent processes", async () => {
    const [one, other] = [starter(), starter()];
    await one.look();
    await other.look();
    const outcomes = await Promise.allSettled([one.pass(), other.pass()]);
    const failed = outcomes.filter(({ status }) => status === "rejected");
    expect(failed).toMatchObject([{ reason: { code: "KUBE_CONFLICT" } }]);
    await Promise.all([one.look(), other.look()]);
    const second = await Promise.allSettled([one.pass(), other.pass()]);
    expect(second.filter(({ status }) => status === "rejected")).toHaveLength(1);
    const first = await kept();
    await one.settle();
    await other.settle();
    expect(await kept()).toEqual(first);
    expect(splitBundle(first.contents.bundlePem)).toHaveLength(1);
  });

  test("is named in the error if it is missing", async () => {
    const one = starter();
    await expect(one.pass()).rejects.toMatchObject({ code: "KUBE_NOT_FOUND" });
  });
});

describe("existing certificates", () => {
  beforeEach(() => starter().settle());

  test("stay unchanged across restarts", async () => {
    const before = await kept();
    await starter().settle();
    expect(await kept()).toEqual(before);
  });

  test("are renewed in time by the same CA", async () => {
    const before = await kept();
    await clock.advance(60 * DAY);
    await starter().settle();
    const after = await kept();
    expect(after.contents.bundlePem).toBe(before.contents.bundlePem);
    expect(after.serving?.endMs).toBe(clock.now() + 90 * DAY);
  });

  test("are distributed again if a bundle is lost", async () => {
    const before = await bundles();
    const fields = { spec: { caBundle: null } };
    const key = { name: "v1.subresources.kubevirt.io" };
    await store.patch(API_SERVICES, key, { type: "merge", fields });
    await starter().settle();
    expect(await bundles()).toEqual(before);
  });

  test("get a new CA, while certificates of the old CA remain valid", async () => {
    const before = await kept();
    await clock.advance(3285.5 * DAY);
    const one = starter();
    await one.look();
    await one.pass();
    const between = await kept();
    expect(splitBundle(between.contents.bundlePem)).toHaveLength(2);
    expect(between.contents.certPem).toBe(before.contents.certPem);
    await one.settle();
    const after = await kept();
    expect(after.serving?.certPem).not.toBe(before.contents.certPem);
    const encoded = Buffer.from(after.contents.bundlePem).toString("base64");
    expect(new Set(await bundles())).toEqual(new Set([encoded]));
  });

  test.each([
    { name: "text that is not PEM", data: { "ca.crt": "eA==", "ca.key": "eA==" } },
    { name: "nothing", data: {} },
  ])("count as missing if the content is $name", async ({ data }) => {
    store.put(SECRETS, { apiVersion: "v1", kind: "Secret", metadata: { ...SECRET_KEY }, data });
    await starter().settle();
    expect((await kept()).serving).toBeDefined();
    expect(new Set(await bundles()).size).toBe(1);
  });
});

describe("sources for TLS", () => {
  test("follow the Secret", async () => {
    const one = starter();
    const source = createCertificateSource(one.secrets);
    await expect(source.read()).rejects.toMatchObject({ code: "KUBE_NOT_FOUND" });
    const stop = new AbortController();
    let changes = 0;
    source.onChange(() => (changes += 1), stop.signal);
    await one.settle();
    await one.look();
    expect((await source.read()).certPem).toBe((await kept()).contents.certPem);
    expect(changes).toBeGreaterThan(0);
    stop.abort();
    const told = changes;
    await one.look();
    expect(changes).toBe(told);
  });

  test.each([
    { name: "names", text: '["front-proxy-client"]', want: ["front-proxy-client"], ca: "PEM" },
    { name: "an empty list of names", text: "[]", want: [], ca: "PEM" },
    { name: "a missing list of names", text: undefined, want: [], ca: "PEM" },
    { name: "a list of names that is not JSON", text: "{", want: [], ca: "" },
  ])("parse the front proxy's ConfigMap: $name", async ({ text, want, ca }) => {
    const cache = createFakeCache<ConfigMap>();
    const source = createTrustSource(cache);
    expect(await source.read()).toEqual({ caPem: "", names: [] });
    const data = {
      "requestheader-client-ca-file": "PEM",
      ...(text !== undefined && { "requestheader-allowed-names": text }),
    };
    const metadata = { ...AUTHENTICATION_KEY };
    cache.put({ apiVersion: "v1", kind: CONFIG_MAPS.kind, metadata, data });
    expect(await source.read()).toEqual({ caPem: ca, names: want });
  });
});
