// SPDX-License-Identifier: Apache-2.0

/** Directory of the mounted service account token. Source: "Accessing the Kubernetes API from a Pod" */
export const SERVICE_ACCOUNT_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount";

/** Returns the API server's URL from the pod's environment. Returns undefined outside a cluster. */
export function findClusterServer(): string | undefined {
  const host = process.env["KUBERNETES_SERVICE_HOST"];
  const port = process.env["KUBERNETES_SERVICE_PORT"];
  if (host === undefined || port === undefined) return undefined;
  return host.includes(":") ? `https://[${host}]:${port}` : `https://${host}:${port}`;
}
