# Prints the manual page of PROGRAM (VERSION), which is what its --help says.
execute_process(COMMAND ${PROGRAM} --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
get_filename_component(name ${PROGRAM} NAME)
string(TOUPPER ${name} title)
if(name STREQUAL duetime-api)
  set(does "takes delayed jobs over HTTP")
else()
  set(does "sends delayed jobs when they are due")
endif()
string(REPLACE "\\" "\\e" help "${help}")
string(REPLACE "-" "\\-" help "${help}")
string(REGEX REPLACE "\n([.'])" "\n\\\\&\\1" help "${help}")
execute_process(COMMAND ${CMAKE_COMMAND} -E echo ".TH ${title} 8 \"\" \"duetime ${VERSION}\" \"System Administration\"
.SH NAME
${name} \\- ${does}
.SH DESCRIPTION
.nf
${help}.fi
.SH FILES
.TP
/etc/duetime/duetime.ini
The settings of the packaged services; /usr/share/doc/duetime/deploy/configuration.md tells of each.
.SH SEE ALSO
.BR duetime (1)")
