// SPDX-License-Identifier: Apache-2.0
// Defaults of pod specs, for pods and for pod templates. Source: Kubernetes core/v1 defaults.
import { type Fields, asFields, isFields, asList, textAt, valueAt } from "../../objects/json.ts";

export const CONTAINER_LISTS = ["containers", "initContainers", "ephemeralContainers"] as const;
export const PROBES = ["livenessProbe", "readinessProbe", "startupProbe"] as const;
export const HOOKS = ["postStart", "preStop"] as const;
/** File mode 0644 in decimal. Source: Kubernetes core/v1 ConfigMapVolumeSourceDefaultMode. */
const FILE_MODE = 420;
/** Default lifetime of projected tokens. Source: Kubernetes core/v1 ServiceAccountTokenProjection. */
const TOKEN_EXPIRATION_SECONDS = 3600;

export function setDefault(fields: Fields, key: string, value: unknown): void {
  if (fields[key] === undefined || fields[key] === null) {
    fields[key] = value;
  }
}

export function objectItems(fields: Fields, key: string): Fields[] {
  return asList(fields[key]).filter(isFields);
}

function defaultPullPolicy(image: string): string {
  const tag = /:([^/:@]+)$/.exec(image)?.[1];
  return image.includes("@") || (tag !== undefined && tag !== "latest") ? "IfNotPresent" : "Always";
}

function defaultHttpGet(handler: Fields): void {
  const httpGet = handler["httpGet"];
  if (isFields(httpGet)) {
    setDefault(httpGet, "path", "/");
    setDefault(httpGet, "scheme", "HTTP");
  }
}

function defaultProbes(container: Fields): void {
  for (const name of PROBES) {
    const probe = container[name];
    if (isFields(probe)) {
      defaultHttpGet(probe);
      setDefault(probe, "timeoutSeconds", 1);
      setDefault(probe, "periodSeconds", 10);
      setDefault(probe, "successThreshold", 1);
      setDefault(probe, "failureThreshold", 3);
    }
  }
  for (const name of HOOKS) {
    defaultHttpGet(asFields(valueAt(container, "lifecycle", name)));
  }
}

function defaultFieldRef(source: unknown): void {
  const reference = valueAt(source, "fieldRef");
  if (isFields(reference)) {
    setDefault(reference, "apiVersion", "v1");
  }
}

function defaultContainer(container: Fields, hostNetwork: boolean): void {
  setDefault(container, "imagePullPolicy", defaultPullPolicy(textAt(container, "image")));
  setDefault(container, "resources", {});
  setDefault(container, "terminationMessagePath", "/dev/termination-log");
  setDefault(container, "terminationMessagePolicy", "File");
  for (const port of objectItems(container, "ports")) {
    setDefault(port, "protocol", "TCP");
    if (hostNetwork) {
      setDefault(port, "hostPort", port["containerPort"]);
    }
  }
  for (const variable of objectItems(container, "env")) {
    defaultFieldRef(variable["valueFrom"]);
  }
  defaultProbes(container);
}

function defaultDownward(source: Fields): void {
  objectItems(source, "items").forEach(defaultFieldRef);
}

function defaultProjected(source: Fields): void {
  setDefault(source, "defaultMode", FILE_MODE);
  for (const projection of objectItems(source, "sources")) {
    const token = projection["serviceAccountToken"];
    if (isFields(token)) {
      setDefault(token, "expirationSeconds", TOKEN_EXPIRATION_SECONDS);
    }
    defaultDownward(asFields(projection["downwardAPI"]));
  }
}

const VOLUME_DEFAULTS: Readonly<Record<string, (source: Fields) => void>> = {
  configMap: (source) => {
    setDefault(source, "defaultMode", FILE_MODE);
  },
  secret: (source) => {
    setDefault(source, "defaultMode", FILE_MODE);
  },
  downwardAPI: (source) => {
    setDefault(source, "defaultMode", FILE_MODE);
    defaultDownward(source);
  },
  projected: defaultProjected,
  hostPath: (source) => {
    setDefault(source, "type", "");
  },
};

function defaultVolume(volume: Fields): void {
  const sources = Object.keys(volume).filter((key) => key !== "name");
  if (sources.length === 0) {
    volume["emptyDir"] = {};
  }
  for (const name of sources) {
    const source = volume[name];
    if (isFields(source)) {
      VOLUME_DEFAULTS[name]?.(source);
    }
  }
}

export function defaultPodSpec(spec: Fields): void {
  setDefault(spec, "restartPolicy", "Always");
  setDefault(spec, "terminationGracePeriodSeconds", 30);
  setDefault(spec, "dnsPolicy", "ClusterFirst");
  setDefault(spec, "schedulerName", "default-scheduler");
  setDefault(spec, "securityContext", {});
  // Sets both fields, because older clients read only the deprecated field serviceAccount.
  setDefault(spec, "serviceAccountName", spec["serviceAccount"]);
  setDefault(spec, "serviceAccount", spec["serviceAccountName"]);
  for (const key of ["serviceAccount", "serviceAccountName"]) {
    if (spec[key] === undefined) {
      Reflect.deleteProperty(spec, key);
    }
  }
  objectItems(spec, "volumes").forEach(defaultVolume);
  for (const list of CONTAINER_LISTS) {
    for (const container of objectItems(spec, list)) {
      defaultContainer(container, spec["hostNetwork"] === true);
    }
  }
}

export function defaultPodOnlyFields(spec: Fields): void {
  setDefault(spec, "enableServiceLinks", true);
  for (const container of CONTAINER_LISTS.flatMap((list) => objectItems(spec, list))) {
    const resources = asFields(container["resources"]);
    const limits = asFields(resources["limits"]);
    if (Object.keys(limits).length > 0) {
      resources["requests"] = { ...limits, ...asFields(resources["requests"]) };
    }
  }
}
