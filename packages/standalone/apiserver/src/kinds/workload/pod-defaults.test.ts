// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { Fields } from "../../objects/json.ts";
import { defaultPodOnlyFields, defaultPodSpec } from "./pod-defaults.ts";

function specOf(spec: Fields): Fields {
  const filled = structuredClone(spec);
  defaultPodSpec(filled);
  return filled;
}

/** A container with defaults for the image `i:1`. */
const CONTAINER = {
  image: "i:1",
  imagePullPolicy: "IfNotPresent",
  resources: {},
  terminationMessagePath: "/dev/termination-log",
  terminationMessagePolicy: "File",
};

describe("defaults of a pod spec", () => {
  const defaults = {
    restartPolicy: "Always",
    terminationGracePeriodSeconds: 30,
    dnsPolicy: "ClusterFirst",
    schedulerName: "default-scheduler",
    securityContext: {},
  };
  const own = {
    restartPolicy: "Never",
    terminationGracePeriodSeconds: 0,
    dnsPolicy: "None",
    schedulerName: "s",
    securityContext: { runAsUser: 1 },
  };

  test.each<{ name: string; spec: Fields; want: Fields }>([
    { name: "gets defaults", spec: {}, want: defaults },
    { name: "gets defaults for null values", spec: { dnsPolicy: null }, want: defaults },
    { name: "retains its own values", spec: own, want: own },
    {
      name: "copies its account to the deprecated field",
      spec: { ...own, serviceAccountName: "a" },
      want: { ...own, serviceAccountName: "a", serviceAccount: "a" },
    },
    {
      name: "copies its account from the deprecated field",
      spec: { ...own, serviceAccount: "a" },
      want: { ...own, serviceAccountName: "a", serviceAccount: "a" },
    },
  ])("$name", ({ spec, want }) => {
    expect(specOf(spec)).toStrictEqual(want);
  });
});

describe("defaults of a container", () => {
  const probe = { timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3 };

  test.each<{ name: string; container: Fields; want: Fields; spec?: Fields }>([
    { name: "gets defaults", container: {}, want: {} },
    {
      name: "gets a protocol for each port",
      container: { ports: [{ containerPort: 1 }, { containerPort: 2, protocol: "UDP" }, "x"] },
      want: {
        ports: [{ containerPort: 1, protocol: "TCP" }, { containerPort: 2, protocol: "UDP" }, "x"],
      },
    },
    {
      name: "gets its ports on the host in the host's network",
      spec: { hostNetwork: true },
      container: { ports: [{ containerPort: 1 }, { containerPort: 2, hostPort: 3 }] },
      want: {
        ports: [
          { containerPort: 1, hostPort: 1, protocol: "TCP" },
          { containerPort: 2, hostPort: 3, protocol: "TCP" },
        ],
      },
    },
    {
      name: "gets a version for each field that a variable names",
      container: {
        env: [
          { name: "a", valueFrom: { fieldRef: { fieldPath: "p" } } },
          { name: "b", valueFrom: { fieldRef: { fieldPath: "p", apiVersion: "v2" } } },
          { name: "c", value: "x" },
        ],
      },
      want: {
        env: [
          { name: "a", valueFrom: { fieldRef: { fieldPath: "p", apiVersion: "v1" } } },
          { name: "b", valueFrom: { fieldRef: { fieldPath: "p", apiVersion: "v2" } } },
          { name: "c", value: "x" },
        ],
      },
    },
    {
      name: "gets times, counts and a path for its probes",
      container: {
        livenessProbe: { httpGet: { port: 1 } },
        readinessProbe: { timeoutSeconds: 5, httpGet: { port: 1, path: "/p", scheme: "HTTPS" } },
        startupProbe: { exec: {} },
      },
      want: {
        livenessProbe: { ...probe, httpGet: { port: 1, path: "/", scheme: "HTTP" } },
        readinessProbe: {
          ...probe,
          timeoutSeconds: 5,
          httpGet: { port: 1, path: "/p", scheme: "HTTPS" },
        },
        startupProbe: { ...probe, exec: {} },
      },
    },
    {
      name: "gets a path for its hooks",
      container: { lifecycle: { postStart: { httpGet: {} }, preStop: { exec: {} } } },
      want: {
        lifecycle: {
          postStart: { httpGet: { path: "/", scheme: "HTTP" } },
          preStop: { exec: {} },
        },
      },
    },
  ])("$name", ({ container, want, spec }) => {
    const lists = ["containers", "initContainers", "ephemeralContainers"];
    for (const list of lists) {
      const filled = specOf({ ...spec, [list]: [{ image: "i:1", ...container }] });
      expect(filled[list]).toEqual([{ ...CONTAINER, ...want }]);
    }
  });

  test.each([
    { image: "i", want: "Always" },
    { image: "i:latest", want: "Always" },
    { image: "i:12", want: "IfNotPresent" },
    { image: "host:5000/i", want: "Always" },
    { image: "host:5000/i:v1", want: "IfNotPresent" },
    { image: "i@sha256:00", want: "IfNotPresent" },
    { image: "i:latest@sha256:00", want: "IfNotPresent" },
  ])("pulls $want from $image", ({ image, want }) => {
    expect(specOf({ containers: [{ image }] })["containers"]).toMatchObject([
      { imagePullPolicy: want },
    ]);
  });
});

test.each<{ name: string; volume: Fields; want: Fields }>([
  { name: "without a source", volume: {}, want: { emptyDir: {} } },
  { name: "of a config map", volume: { configMap: {} }, want: { configMap: { defaultMode: 420 } } },
  {
    name: "of a secret with a mode",
    volume: { secret: { defaultMode: 256 } },
    want: { secret: { defaultMode: 256 } },
  },
  { name: "of a secret", volume: { secret: {} }, want: { secret: { defaultMode: 420 } } },
  {
    name: "of the pod's own fields",
    volume: { downwardAPI: { items: [{ fieldRef: { fieldPath: "p" } }] } },
    want: {
      downwardAPI: {
        defaultMode: 420,
        items: [{ fieldRef: { fieldPath: "p", apiVersion: "v1" } }],
      },
    },
  },
  {
    name: "of several sources",
    volume: {
      projected: {
        sources: [
          { serviceAccountToken: { path: "t" } },
          { serviceAccountToken: { path: "t", expirationSeconds: 600 } },
          { downwardAPI: { items: [{ fieldRef: { fieldPath: "p" } }] } },
          { secret: { name: "s" } },
        ],
      },
    },
    want: {
      projected: {
        defaultMode: 420,
        sources: [
          { serviceAccountToken: { path: "t", expirationSeconds: 3600 } },
          { serviceAccountToken: { path: "t", expirationSeconds: 600 } },
          { downwardAPI: { items: [{ fieldRef: { fieldPath: "p", apiVersion: "v1" } }] } },
          { secret: { name: "s" } },
        ],
      },
    },
  },
  {
    name: "of the host",
    volume: { hostPath: { path: "/p" } },
    want: { hostPath: { path: "/p", type: "" } },
  },
  { name: "of a kind without defaults", volume: { nfs: {} }, want: { nfs: {} } },
  { name: "whose source is not an object", volume: { secret: "s" }, want: { secret: "s" } },
])("a volume $name", ({ volume, want }) => {
  expect(specOf({ volumes: [{ name: "v", ...volume }] })["volumes"]).toEqual([
    { name: "v", ...want },
  ]);
});

test.each<{ name: string; resources: Fields | undefined; want: Fields | undefined }>([
  { name: "nothing", resources: undefined, want: undefined },
  {
    name: "only requests",
    resources: { requests: { cpu: "1" } },
    want: { requests: { cpu: "1" } },
  },
  { name: "empty limits", resources: { limits: {} }, want: { limits: {} } },
  {
    name: "limits, which become missing requests",
    resources: { limits: { cpu: "2", memory: "1Gi" }, requests: { cpu: "1" } },
    want: { limits: { cpu: "2", memory: "1Gi" }, requests: { cpu: "1", memory: "1Gi" } },
  },
])("a container of a pod with $name", ({ resources, want }) => {
  const filled: Fields = {
    initContainers: [{ resources: structuredClone(resources) }],
    enableServiceLinks: false,
  };
  defaultPodOnlyFields(filled);
  expect(filled).toEqual({ initContainers: [{ resources: want }], enableServiceLinks: false });
});

test("a pod gets service links by default unless it sets its own value", () => {
  const filled: Fields = {};
  defaultPodOnlyFields(filled);
  expect(filled).toEqual({ enableServiceLinks: true });
});
