{{- define "duetime.image" -}}
{{ .root.Values.image.repository }}:{{ .tag | default .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{- define "duetime.selector" -}}
app.kubernetes.io/name: duetime
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "duetime.labels" -}}
{{ include "duetime.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* "mysql.host" as DUETIME_MYSQL_HOST; settings: of all, of this program; secrets as files. */}}
{{- define "duetime.environment" -}}
{{- range $key, $value := mergeOverwrite (deepCopy .root.Values.settings) .settings }}
- name: DUETIME_{{ $key | replace "." "_" | upper }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- range $key, $_ := .secrets }}
- name: DUETIME_{{ $key | replace "." "_" | upper }}_FILE
  value: /etc/duetime/secrets/{{ $key }}
{{- end }}
{{- end }}

{{- define "duetime.volumes" -}}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      {{- range $key, $from := .secrets }}
      - secret:
          name: {{ $from.name | quote }}
          items:
            - {key: {{ $from.key | quote }}, path: {{ $key | quote }}}
      {{- end }}
- name: tmp
  emptyDir: {medium: Memory, sizeLimit: 16Mi}
{{- end }}

{{- define "duetime.mounts" -}}
- {name: secrets, mountPath: /etc/duetime/secrets, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "duetime.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "duetime.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* What any pod of ours says, whatever it runs. */}}
{{- define "duetime.pod" -}}
serviceAccountName: {{ .root.Release.Name }}-duetime
automountServiceAccountToken: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- include "duetime.podSecurity" . | nindent 2 }}
volumes: {{- include "duetime.volumes" . | nindent 2 }}
{{- end }}

{{- define "duetime.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
